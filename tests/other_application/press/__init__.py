"""An application of the queue that knows nothing of papers: a press that prints and folds leaflets."""
