"""The page at `/`: speculation to look at. Static files, and the routes that serve them."""
