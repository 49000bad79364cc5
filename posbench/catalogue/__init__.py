"""What every encoding and extension is: the catalogue of formulas, and the kit that checks them."""
