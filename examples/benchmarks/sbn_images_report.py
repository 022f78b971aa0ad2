"""Tables and pictures of what `sbn_images.py` measures."""

import statistics

import numpy as np
from drawing import DPI, panels
from growing_results import describe
from result_files import Table, mean_of, save, with_spread

# Of the axis of losses.
TICKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5)
# Methods of "mlp" that change the noise or the weights, and not the estimator.
NOISES = {"st", "st uniform", "st triangular", "st mirror", "st pgd", "relu"}


def ways_of(result):
    """Return what ways to predict were measured: det, and sizes of ensembles."""
    return [way for way in result if way == "det" or way.isdigit()]


def show(content, results=None):
    """Print and save the learning rates that were tried, and fits of one size."""
    print(describe(content["head"]))
    tables = {}
    if rates_table(content).rows:
        print("\nlearning rates, and accuracies on validation rows:")
        tables["rates"] = rates_table(content).printed()
    for (data, network, rows, epochs), by_method in fits_of(content).items():
        print(f"\n{data}, {network}, {rows}, {epochs}")
        name = f"{network}_{rows.removesuffix(' rows')}"
        tables[name] = fits_table(by_method).printed()
    save(results, tables, measured=content["head"])


def rates_table(content):
    """Return the learning rates that were taken, and how accurate others were.

    That is the accuracy on validation rows, in percent.
    """
    cells = {n: c for n, c in content["cells"].items() if "losses" not in c}
    found = {
        name: {str(lr): 100 * share for lr, share in cell.get("found", {}).items()}
        for name, cell in cells.items()
    }
    tried = dict.fromkeys(lr for shares in found.values() for lr in shares)
    formats = {"network": "", "method": "", "taken": ".2g"}
    table = Table(formats | dict.fromkeys(tried, ".1f"))
    for name, cell in cells.items():
        shares = map(found[name].get, tried)
        table.rows.append([*name.split("/")[1:3], cell["lr"], *shares])
    return table


def fits_of(content):
    """Return the fits of each method, for all data, networks and sizes of training."""
    found = {}
    for name, fit in content["cells"].items():
        if "losses" in fit:
            data, network, _, rows, epochs, *_ = name.split("/")
            size = data, network, rows, epochs
            found.setdefault(size, {}).setdefault(fit["method"], []).append(fit)
    return found


def fits_table(by_method):
    """Return means over seeds and half the range, best accuracy first."""
    every = [run for runs in by_method.values() for run in runs]
    ways = max(map(ways_of, every), key=len)
    columns = {f"acc. {way}": ".1f" for way in ways}
    columns |= {f"loss {way}": ".3f" for way in ways}
    end = {"training loss": ".3f", "expected loss": ".3f", "CPU s": ".1f", "seeds": ""}
    if not any("expected" in run for run in every):
        del end["expected loss"]
    rows = []
    for method, runs in by_method.items():
        measured = {way: [run[way] for run in runs if way in run] for way in ways}
        row = [method, ", ".join(f"{lr:.2g}" for lr in sorted({r["lr"] for r in runs}))]
        for own in measured.values():
            row.append(with_spread([100 * each["accuracy"] for each in own]))
        row += [mean_of([it["log_loss"] for it in own]) for own in measured.values()]
        row.append(mean_of([run["losses"][-1] for run in runs]))
        if "expected loss" in end:
            known = [run["expected"]["log_loss"] for run in runs if "expected" in run]
            row.append(mean_of(known))
        seconds = statistics.median(run["cpu_seconds"] for run in runs)
        rows.append([*row, seconds, len(runs)])
    accuracies = slice(2, 2 + len(ways))
    rows.sort(
        key=lambda row: -max(np.atleast_1d(it)[0] for it in row[accuracies] if it)
    )
    return Table({"method": "", "lr": "", **columns, **end}, rows)


def draw(content, path):
    """Draw training losses against epochs, and accuracies against members."""
    parts = list(panels_of(content))
    titles = [title for _, title, _ in parts]
    figure, axes = panels(titles, 2, size=(4.5, 3.6), legend=False)
    for ax, (draw_panel, _, by_method) in zip(axes, parts, strict=True):
        draw_panel(ax, by_method)
        ax.legend(frameon=False, fontsize="x-small")
    figure.savefig(path, dpi=DPI)


def panels_of(content):
    """Yield how a panel is drawn, its title and its fits, by method."""
    for (_, network, rows, epochs), by_method in fits_of(content).items():
        title = f"{network}, {rows}, {epochs}"
        if network == "mlp":
            kinds = {
                "estimators": by_method.keys() - NOISES | {"st", "relu"},
                "noises and weights": NOISES,
            }
            for kind, methods in kinds.items():
                some = {m: runs for m, runs in by_method.items() if m in methods}
                yield draw_losses, f"mlp: {kind}", some
            continue
        yield draw_losses, title, by_method
        if any(len(ways_of(run)) > 2 for runs in by_method.values() for run in runs):
            yield draw_members, title, by_method


def styles(by_method):
    """Return a line for each method: that of real units is dashed."""
    styles = {m: {"color": f"C{i}"} for i, m in enumerate(sorted(by_method))}
    return {
        m: {"color": "black", "linestyle": "--"} if m.startswith("relu") else style
        for m, style in styles.items()
    }


def draw_losses(ax, by_method):
    """Draw training losses, means over seeds."""
    curves = {
        method: np.mean([run["losses"] for run in runs], axis=0)
        for method, runs in by_method.items()
    }
    n_epochs = max(map(len, curves.values()))
    for method, losses in sorted(curves.items(), key=lambda item: -item[1][-1]):
        # Those that begin with real units have losses of the last epochs only.
        epochs = 1 + n_epochs - len(losses) + np.arange(len(losses))
        ax.plot(epochs, losses, label=method, **styles(by_method)[method])
    ax.set(xlabel="epochs", ylabel="training loss", yscale="log")
    ax.set_yticks(TICKS, map(str, TICKS))
    ax.set_yticks([], minor=True)
    losses = np.concatenate(list(curves.values()))
    ax.set_ylim(0.9 * losses.min(), 1.1 * losses.max())


def draw_members(ax, by_method):
    """Draw each fit's accuracies: without noise, then against members."""
    every = [run for runs in by_method.values() for run in runs]
    places = {way: x for x, way in enumerate(max(map(ways_of, every), key=len))}
    for method, style in styles(by_method).items():
        for i, run in enumerate(by_method[method]):
            ways = ways_of(run)
            x = [places[way] for way in ways]
            y = [100 * run[way]["accuracy"] for way in ways]
            label = None if i else method
            if len(ways) == 1:
                ax.axhline(*y, label=label, alpha=0.6, **style)
            else:
                ax.plot(x[:1], y[:1], marker="s", **style)
                ax.plot(x[1:], y[1:], marker=".", label=label, alpha=0.6, **style)
    ax.set_xticks([*places.values()], ["no noise", *list(places)[1:]])
    ax.set(xlabel="members", ylabel="test accuracy, %")
