"""Will the model run here? A table of need, have and mend, before a byte of weights is fetched.

Every check is named in every.py. Nothing is loaded here: a model is looked up (source/) while the libraries
come that judge it.
"""
