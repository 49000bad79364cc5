"""All methods with their formulas, pictures and declarations; the pages of conf/."""
