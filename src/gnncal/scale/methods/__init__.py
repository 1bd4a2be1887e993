"""The methods that work at scale: what each needs of the edges, and its temperature or more.

A method is fitted by the code that fits it in memory, on the calibration rows alone
(:meth:`gnncal.Nodes.with_result`). Here it says which passes over the edges describe its
neighbourhoods, and calls the formulas with columns of the nodes' table.
"""
