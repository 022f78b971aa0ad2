"""The picture of an audit; the only module that draws."""


def plot_audit(result, ax=None):
    """Draw recall against bytes per vector; see `AuditResult.plot`."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    settings, best = result.settings, result.recommended
    k, rescore = settings["k"], settings["rescore"]
    methods = dict.fromkeys(row.method for row in result.rows)
    for number, method in enumerate(methods):
        rows = sorted(
            (row for row in result.rows if row.method == method),
            key=lambda row: row.n_bits,
        )
        sizes = [row.bytes_per_vector for row in rows]
        rescored = [row.recall_rescored for row in rows]
        color = f"C{number}"
        ax.plot(sizes, rescored, "o-", color=color, label=method)
        ax.plot(sizes, [row.recall for row in rows], "o:", color=color, alpha=0.6)
    ax.axhline(settings["target_recall"], color="0.6", linewidth=1, zorder=0)
    ax.plot(
        best.bytes_per_vector,
        best.recall_rescored,
        "o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor="black",
        linestyle="none",
        label=f"recommended: {best.method}, {best.n_bits} bits",
    )
    # The line styles explained once, for all methods.
    ax.plot([], [], "-", color="0.3", label=f"after re-scoring {rescore}")
    ax.plot([], [], ":", color="0.3", label="Hamming distance alone")

    ax.set_xscale("log", base=2)
    sizes = sorted({row.bytes_per_vector for row in result.rows})
    ax.set_xticks(sizes, [f"{size}" for size in sizes])
    ax.minorticks_off()
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"bytes per vector (float32: {settings['float_bytes_per_vector']})")
    ax.set_ylabel(f"recall of the {k} nearest neighbours")
    ax.set_title(
        f"{settings['n_database']:,} vectors of {settings['n_features']} numbers, "
        f"{settings['metric'].replace('_', ' ')}",
        fontsize="medium",
    )
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", loc="lower right")
    return ax
