"""What the fits of these methods are made of."""
