"""Groups of axes that many producers state alike, each read by one function."""
