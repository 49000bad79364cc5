"""One method or task among published rows."""
