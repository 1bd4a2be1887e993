"""What a calibration did, as records that reports and charts show."""
