"""The order of the examples in the gallery: the first steps come first."""

STORY = [
    "plot_quick_start.py",
    "plot_embeddings.py",
    "plot_nested_codes.py",
    "plot_nearest_images.py",
    "plot_image_features.py",
    "plot_data_frame.py",
    "plot_fingerprints.py",
    "plot_deduplicate.py",
    "plot_duplicate_texts.py",
    "plot_neighbor_graph.py",
    "plot_grid_search.py",
    "plot_supervised_hashing.py",
    "plot_semantic_hashing.py",
    "plot_stochastic_binary_network.py",
    "plot_gradient_estimators.py",
]


class StoryOrder:
    """Sphinx-gallery's key of an example; what is not in the story comes last."""

    def __init__(self, folder):
        pass

    def __call__(self, name):
        """Return the place of a file."""
        return (STORY.index(name) if name in STORY else len(STORY), name)
