"""The pipeline: each step reads a run directory, computes what is missing, and writes it there.

train → attack → collect → report. Steps share a directory, not objects: each can be stopped at any
moment and started again.

    run = train.begin(Path("runs/mine"), RECIPES["mnist-ccat-small"], "cpu")
"""
