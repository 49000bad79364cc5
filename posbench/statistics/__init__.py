"""What runs say, and how sure it is: areas, means, intervals, ranks and tests. No torch here."""
