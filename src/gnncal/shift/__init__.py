"""After a fit: are new nodes of the same kind, and do labels agree with what was promised?"""
