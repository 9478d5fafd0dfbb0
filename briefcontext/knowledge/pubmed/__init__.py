"""PubMed at NCBI, searched live."""
