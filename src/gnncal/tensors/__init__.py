"""What calibrators and classifiers share that needs torch; nothing here is loaded without it."""
