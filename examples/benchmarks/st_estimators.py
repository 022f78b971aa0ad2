"""Gradient estimators on a stochastic autoencoder of 20 Newsgroups.

The experiment of Shekhovtsov and Yanush, "Reintroducing straight-through estimators as
principled methods for stochastic binary networks" (section 5 and appendix D.1): word
counts are encoded into 8, 64 or 256 random bits and decoded again, with every gradient
estimator in the same setting. After a first phase with the estimator, all of them go on
with ARM of 10 samples and a fresh optimizer. At parameters along the trajectory of ARM,
the gradients of the encoder are compared with a precise one::

    python examples/benchmarks/st_estimators.py --data-home DIR --output runs.json
    python examples/benchmarks/st_estimators.py --show runs.json \
        --picture docs/images/st_estimators.svg --results docs/results/st_estimators.md
    python examples/benchmarks/st_estimators.py --full --device cuda --data-home DIR \
        --output runs.json

The default is a reduced setting for one core. Each training is written to the file when
it is done, and a run that is started again resumes after the last one. "Early" is the
first tenth of the first phase, "late" its end, "corrected" the end of the second phase.
"""

import datetime
import inspect
import sys
import time

import numpy as np
import tools
import torch
from skorch.callbacks import Callback

from skhash import StochasticAutoencoderHash
from skhash.gradients import GumbelSoftmax, gradient_report
from skhash.neural import Correction
from skhash.noise import Logistic

ESTIMATORS = {
    "arm": "arm",
    "gumbel 1.0": GumbelSoftmax(1.0),
    "gumbel 0.1": GumbelSoftmax(0.1),
    **{name: name for name in ("st", "det_st", "identity_st", "zgr", "disarm")},
}
# For training: besides these the gradient itself, where all codes can be tried.
TRAINED = ESTIMATORS | {"exact": "exact"}
EXACT_BITS = 10
METRICS = ("cosine", "improvement", "optimum", "rmse")
OTHERS = ["zgr", "disarm", "exact"]  # which the paper does not have
# The paper's setting, and the reduced one.
SETTINGS = {
    "words": (10_000, 300),
    "skip_words": (0, 100),
    "documents": (None, 1000),
    "batch_size": (100, 50),
    "epochs": (1000, 1000),
    "correction_epochs": (500, 150),
    "points": (15, 5),
    "measured_documents": (None, 100),
    "reference_samples": (1000, 500),
    "trials": (100, 20),
}
# Documents and draws of their bits that the loss is evaluated with, so many times.
LOSS_DOCUMENTS, LOSS_DRAWS, LOSSES = 200, 4, 200


class Watch(Callback):
    """Records the loss of drawn bits on fixed documents, whatever the training sees.

    Parameters
    ----------
    X : Tensor of shape (n_documents, n_words)
    every : int
        Of how many epochs one is recorded.
    keep : list of int
        The epochs whose parameters are kept, in ``kept_``.
    label : str
        Printed in front of the progress.
    """

    def __init__(self, X, every, keep, label):
        self.X, self.every, self.keep, self.label = X, every, keep, label

    def initialize(self):
        self.kept_, self.records_ = {}, []
        return self

    @torch.no_grad()
    def on_epoch_end(self, net, **kwargs):
        module, epoch = net.module_, len(net.history)
        if epoch % self.every == 0:
            self.records_.append({"epoch": epoch} | self.losses(module, net.device))
        if epoch in self.keep:
            state = module.state_dict()
            self.kept_[epoch] = {name: v.cpu().clone() for name, v in state.items()}
            say(f"{self.label}: epoch {epoch}")

    def losses(self, module, device):
        X = self.X.to(device)
        logits, reconstruct = module(X), module.reconstruction(X)
        # The same uniform numbers every time.
        generator = torch.Generator(device=X.device).manual_seed(0)
        drawn = [module.units.draw(logits, generator) for _ in range(LOSS_DRAWS)]
        p = module.units.noise.cdf(logits)
        return {
            "loss": float(sum(reconstruct(b).mean() for b in drawn) / LOSS_DRAWS),
            "code_loss": float(reconstruct((p > 0.5).to(p.dtype)).mean()),
            "certainty": float((2 * p - 1).abs().mean()),
        }


def say(text):
    print(f"  {datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def load(options):
    """Return the counts, documents in random order; dense where that is faster."""
    X = tools.load_20newsgroups("counts", data_home=options.data_home).train
    frequency = np.asarray(X.sum(axis=0)).ravel()
    order = np.argsort(-frequency, kind="stable")
    chosen = order[options.skip_words : options.skip_words + options.words]
    X = X[:, np.sort(chosen)]
    X = X[np.asarray(X.sum(axis=1)).ravel() > 0]
    # The same documents for all seeds.
    shuffled = np.random.default_rng(0).permutation(X.shape[0])
    X = X[shuffled[: options.documents]]
    return X.toarray() if X.shape[1] <= 1000 else X


def dense(X):
    return torch.tensor(X if isinstance(X, np.ndarray) else X.toarray())


def train(seed, n_bits, name, X, options):
    """Train with one estimator; along the trajectory of ARM, measure all of them."""
    total = options.epochs + options.correction_epochs
    points = np.linspace(0, total, options.points + 1)[1:].astype(int).tolist()
    every = max(1, options.epochs // LOSSES)
    label = f"seed {seed}, {n_bits} bits, {name}"
    encoder = StochasticAutoencoderHash(
        n_bits,
        gradient=TRAINED[name],
        noise=Logistic(scale=2),  # P(bit = 1) is the sigmoid of the logit
        hidden_layer_sizes=(512,),
        decoder_hidden_layer_sizes=None,  # the mirror image
        encoder_input="frequency",
        kl_weight=0.0,
        dropout=0.0,
        optimizer="adam",
        lr=1e-3,
        batch_size=options.batch_size,
        max_epochs=options.epochs,
        correction=Correction("arm", n_epochs=options.correction_epochs),
        callbacks=[Watch(dense(X[:LOSS_DOCUMENTS]), every, points, label)],
        random_state=seed,
        device=options.device,
    )
    start = time.perf_counter()
    encoder.fit(X)
    seconds = time.perf_counter() - start
    watch = dict(encoder.net_.callbacks_)["Watch"]
    records = watch.records_
    columns = {column: [it[column] for it in records] for column in records[0]}
    steps = -(-X.shape[0] // options.batch_size)
    durations = 1000 * np.array([record["dur"] for record in encoder.history_]) / steps
    phases = durations[: options.epochs], durations[options.epochs :]
    paces = [round(float(np.median(phase)), 1) for phase in phases if len(phase)]
    say(f"{label}: {' ms a step, then '.join(map(str, paces))} ms a step")
    result = {"seed": seed, "n_bits": n_bits, "estimator": name, "seconds": seconds}
    result["ms_a_step"] = paces
    if name == "arm":
        result["points"] = [
            measure(encoder, epoch, state, X, options)
            for epoch, state in watch.kept_.items()
        ]
    return result | columns


def measure(encoder, epoch, state, X, options):
    """Return how good all estimators are at the parameters of one epoch."""
    start = time.perf_counter()
    encoder.net_.module_.load_state_dict(state)
    report = gradient_report(
        encoder,
        X[: options.measured_documents],
        ESTIMATORS,
        n_trials=options.trials,
        reference_samples=options.reference_samples,
        batch_size=options.batch_size,
        random_state=encoder.random_state,
        device=options.device,
    )
    rows = {row.estimator: row for row in report.rows if row.group == "encoder"}
    say(f"epoch {epoch}: measured in {time.perf_counter() - start:.0f} s")
    return {
        "epoch": epoch,
        "ceiling": report.settings["cosine_ceiling"]["encoder"],
        "estimators": {
            name: {metric: getattr(row, metric) for metric in METRICS}
            for name, row in rows.items()
        },
    }


def in_order(options):
    """Return seed, bits and estimator of each training, what says most first.

    The first seed comes first, and of it the paper's estimators; of the other seeds
    the fewest bits, which take least time.
    """
    first = options.seeds[0]
    tasks = [
        (seed, n_bits, name)
        for n_bits in sorted(options.bits)
        for seed in options.seeds
        for name in options.estimators
        if name != "exact" or n_bits <= EXACT_BITS
    ]
    return sorted(tasks, key=lambda task: (task[0] != first, task[2] in OTHERS))


# Measurements

PHASES = ("early", "late", "corrected")
# The biased estimators of the paper.
BIASED = [name for name in ESTIMATORS if name not in ("arm", *OTHERS)]


class Run:
    """One training, its losses by epoch."""

    def __init__(self, cell, n_epochs):
        self.cell, self.n_epochs = cell, n_epochs
        self.epochs = np.array(cell["epoch"])

    def at(self, epoch, column="loss"):
        """Return the mean of the three records up to an epoch."""
        end = max(1, np.searchsorted(self.epochs, epoch, side="right"))
        return float(np.mean(self.cell[column][max(0, end - 3) : end]))

    def phase(self, name, column="loss"):
        early, late = self.n_epochs // 10, self.n_epochs
        ends = {"early": early, "late": late, "corrected": self.epochs[-1]}
        return self.at(ends[name], column)

    def falls(self):
        """Return by how much the loss falls an epoch, and how much it has fallen.

        In the last quarter of the first phase, then in the first tenth of the second;
        last, the share that the last quarter has in the fall of the first phase.
        """
        late, quarter = self.at(self.n_epochs), self.n_epochs // 4
        before = self.at(self.n_epochs - quarter)
        rest = int(self.epochs[-1]) - self.n_epochs
        tenth = max(1, rest // 10)
        repair = (late - self.at(self.n_epochs + tenth)) / tenth
        first = self.cell["loss"][0]
        return (before - late) / quarter, repair, (before - late) / (first - late)


class Measured:
    """All trainings; what they say about one number of bits, a seed at a time."""

    def __init__(self, content):
        self.settings = content["settings"]
        self.runs = {
            (cell["seed"], cell["n_bits"], cell["estimator"]): Run(
                cell, self.settings["epochs"]
            )
            for cell in content["cells"].values()
        }
        self.every_seed = sorted({seed for seed, _, _ in self.runs})
        self.bits = sorted({n_bits for _, n_bits, _ in self.runs})
        self.few, self.many = self.bits[0], self.bits[-1]
        self.names = [n for n in TRAINED if any(n == key[2] for key in self.runs)]

    def seeds(self, *lengths, name="arm"):
        """Return the seeds that an estimator is done with, at all of the lengths."""
        runs = self.runs
        return [
            s for s in self.every_seed if all((s, b, name) in runs for b in lengths)
        ]

    def of(self, n_bits, name):
        """Return the trainings of one estimator, one a seed."""
        return [self.runs[s, n_bits, name] for s in self.seeds(n_bits, name=name)]

    def points(self, seed, n_bits):
        return self.runs[seed, n_bits, "arm"].cell["points"]

    def along(self, seed, n_bits, name, what="cosine"):
        """Return a measure at each point of ARM's trajectory."""
        points = [it["estimators"][name] for it in self.points(seed, n_bits)]
        return np.array([MEASURES[what](point) for point in points])

    def cosine(self, seed, n_bits, name):
        return self.along(seed, n_bits, name).mean()

    def mean(self, name, n_bits, what):
        """Return the mean of a measure over the points of ARM's trajectory."""
        seeds = self.seeds(n_bits)
        return tools.with_spread(
            [self.along(s, n_bits, name, what).mean() for s in seeds]
        )

    def loss(self, name, n_bits, phase, column):
        return tools.with_spread(
            [run.phase(phase, column) for run in self.of(n_bits, name)]
        )


# The best expected improvement is the norm of the gradient, with its sign turned.
MEASURES = {
    "cosine": lambda point: point["cosine"],
    "gain": lambda point: point["improvement"] / point["optimum"],
    "rmse": lambda point: -point["rmse"] / point["optimum"],
}


def table_of(names, cell, columns, form=""):
    """Return a table of estimators; columns have what a cell is asked for, by title."""
    rows = [[name, *(cell(name, *key) for key in columns.values())] for name in names]
    return tools.Table({"estimator": "", **dict.fromkeys(columns, form)}, rows)


def cosines_table(measured, n_bits):
    """Return the cosine at each point, and what the true gradient would have."""
    seeds = measured.seeds(n_bits)
    points = [measured.points(seed, n_bits) for seed in seeds]
    columns = {f"epoch {point['epoch']}": ".2f" for point in points[0]}
    table = tools.Table({"estimator": "", **columns})
    for name in ESTIMATORS:
        means = np.mean([measured.along(s, n_bits, name) for s in seeds], axis=0)
        table.rows.append([name, *means.tolist()])
    ceilings = [[point["ceiling"] for point in own] for own in points]
    table.rows.append(["true gradient", *np.mean(ceilings, axis=0).tolist()])
    return table


def paces_table(measured):
    """Return milliseconds a step of both phases, where they were measured."""
    columns = {"bits": "", "estimator": "", "ms a step": ".1f", "of ARM-10": ".1f"}
    table = tools.Table(columns)
    for (_, n_bits, name), run in sorted(measured.runs.items()):
        if "ms_a_step" in run.cell:
            table.rows.append([n_bits, name, *run.cell["ms_a_step"]])
    return table


def tables_of(measured):
    """Return all tables by their names."""
    names, bits = measured.names, measured.bits
    paces = {"Milliseconds per step": paces_table(measured)}
    if not any(measured.points(seed, b) for b in bits for seed in measured.seeds(b)):
        return paces  # of a run that measures only these
    phases = {f"{phase}, {b}": (b, phase) for b in bits for phase in PHASES}
    tables = {}
    for column in ("loss", "code_loss"):
        columns = {title: (*key, column) for title, key in phases.items()}
        tables[column] = table_of(names, measured.loss, columns, ".1f")
    gradients = {f"{what}, {b}": (b, what) for b in bits for what in ("cosine", "gain")}
    tables["gradients"] = table_of(ESTIMATORS, measured.mean, gradients, ".2f")
    rmse = {f"{b} bits": (b, "rmse") for b in bits}
    tables["rmse"] = table_of(ESTIMATORS, measured.mean, rmse, ".2f")
    tables |= {f"cosines_{b}": cosines_table(measured, b) for b in bits}
    done = {f"{b} bits": (b,) for b in bits}
    tables["seeds"] = table_of(names, lambda n, b: len(measured.of(b, n)), done)
    tables |= {name: table for name, table in paces.items() if table.rows}
    columns = dict.fromkeys(("", "claim", "holds if", "verdict", "fulfilled in"), "")
    rows = [row_of_claim(measured, number, judge) for number, judge in CLAIMS.items()]
    return tables | {"claims": tools.Table(columns, rows)}


def row_of_claim(measured, number, judge):
    """Return the verdict on a claim of the paper."""
    text = inspect.getdoc(judge).format(few=measured.few, many=measured.many)
    claim, _, rule = text.replace("\n\n", "\t").replace("\n", " ").partition("\t")
    votes = judge(measured)
    return [number, claim, rule, verdict(votes), f"{sum(votes)} of {len(votes)}"]


# The claims of the paper, and by which rule they hold; a vote is that of a seed.


def stalling(measured):
    """With few bits ({few}) st and det_st stall or rise

    the last quarter of the first phase contributes less than 5% of its fall
    """
    runs = [run for name in ("st", "det_st") for run in measured.of(measured.few, name)]
    return [run.falls()[2] < 0.05 for run in runs]


def repair(measured):
    """With few bits ({few}) ARM-10 quickly repairs st and det_st

    the first tenth of the correction falls more than twice as fast as the last quarter
    before it
    """
    runs = [run for name in ("st", "det_st") for run in measured.of(measured.few, name)]
    falls = [run.falls() for run in runs]
    return [after > max(0, 2 * before) for before, after, _ in falls]


def direction(measured):
    """With few bits ({few}) biased estimators point in a wrong direction

    for most, the mean cosine is below 0 in the second half of the points
    """
    few, votes = measured.few, []
    for seed in measured.seeds(few):
        cosines = [measured.along(seed, few, name) for name in BIASED]
        wrong = [own[len(own) // 2 :].mean() < 0 for own in cosines]
        votes.append(sum(wrong) > len(wrong) / 2)
    return votes


def more_bits(measured):
    """With more bits all biased estimators improve

    the mean cosine is higher at {many} bits than at {few}
    """
    few, many, cosine = measured.few, measured.many, measured.cosine
    return [
        all(cosine(seed, many, name) > cosine(seed, few, name) for name in BIASED)
        for seed in measured.seeds(few, many)
    ]


def variants(measured):
    """Stochastic straight-through is more accurate than det_st and identity_st

    a higher mean cosine, at every length
    """
    others, cosine = ("det_st", "identity_st"), measured.cosine
    return [
        all(
            cosine(s, b, "st") >= cosine(s, b, n) for b in measured.bits for n in others
        )
        for s in measured.seeds(*measured.bits)
    ]


def saturation(measured):
    """det_st improves as the units saturate

    {many} bits: both are higher in the second half of the points
    """
    many, votes = measured.many, []
    for seed in measured.seeds(many):
        run, points = measured.runs[seed, many, "arm"], measured.points(seed, many)
        certainty = np.array([run.at(it["epoch"], "certainty") for it in points])
        both, half = (certainty, measured.along(seed, many, "det_st")), len(points) // 2
        votes.append(all(own[half:].mean() > own[:half].mean() for own in both))
    return votes


def training(measured):
    """Biased estimators can beat 1-sample ARM in training

    a lower loss at the end of the first phase, at any length
    """
    votes = []
    for seed in measured.every_seed:
        ends = {
            (b, n): run.phase("late")
            for (s, b, n), run in measured.runs.items()
            if s == seed
        }
        held = [
            end < ends[b, "arm"]
            for (b, name), end in ends.items()
            if name in BIASED and (b, "arm") in ends
        ]
        votes += [any(held)] if held else []
    return votes


CLAIMS = {
    **{"1a": stalling, "1b": repair, "2": direction, "3": more_bits},
    **{"4": variants, "5": saturation, "6": training},
}


def verdict(votes):
    """Return what the votes of seeds come to."""
    if not votes or any(votes) != all(votes):
        return "inconclusive at this size"
    return "holds" if votes[0] else "does not hold here"


def draw(measured, path):
    """Draw the loss by epoch, mean and range of the seeds, a panel for each length."""
    titles = [f"{n_bits} bits" for n_bits in measured.bits]
    figure, axes = tools.panels(titles, size=(3.6, 3))
    for n_bits, ax in zip(measured.bits, axes, strict=True):
        for number, name in enumerate(measured.names):
            if not (runs := measured.of(n_bits, name)):
                continue
            # The first steep fall would flatten the rest; each fourth point will do.
            shown = np.flatnonzero(runs[0].epochs >= runs[0].n_epochs // 50)[::4]
            losses = np.array([run.cell["loss"] for run in runs])[:, shown]
            epochs, color = runs[0].epochs[shown], f"C{number}"
            ax.plot(epochs, losses.mean(axis=0), color=color, label=name)
            ends = losses.min(axis=0), losses.max(axis=0)
            ax.fill_between(epochs, *ends, color=color, alpha=0.2, linewidth=0)
        ax.axvline(measured.settings["epochs"], color="0.4", linestyle=":")
        ax.set(xlabel="epoch; dotted: switch to ARM-10")
    axes[0].set_ylabel("loss of drawn bits, nats")
    tools.finish(figure, path)


def parse():
    runs = {"bits": [8, 64, 256], "seeds": [0, 1, 2], "estimators": TRAINED}
    more = {"full": False, "device": "cpu", "picture": None}
    parser = tools.options(__doc__, grows=True, **runs, **more)
    for name, (full, reduced) in SETTINGS.items():
        full = "all" if full is None else full
        what = f"{reduced}; with --full {full}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=what)
    options = parser.parse_args()
    for name, (full, reduced) in SETTINGS.items():
        if getattr(options, name) is None:
            setattr(options, name, full if options.full else reduced)
    return options


def run(options):
    """Train what is not in the file, and return its content."""
    X = load(options)
    results = tools.Results(options.output, lambda cell: "done")
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings |= {"documents": X.shape[0], "words": X.shape[1]}
    before = results.content.setdefault("settings", settings)
    if before != settings:
        sys.exit(
            f"{options.output} holds trainings of another setting: {before}, and this "
            f"is {settings}. Give another --output."
        )
    for seed, n_bits, name in in_order(options):
        label = f"seed {seed}, {n_bits} bits, {name}"
        results.get(label, lambda task=(seed, n_bits, name): train(*task, X, options))
    return results.content


def main():
    options = parse()
    content = tools.merged(options.show) if options.show else run(options)
    settings = [tools.merged([path])["settings"] for path in options.show or ()]
    if any(one != content["settings"] for one in settings):
        sys.exit("These files hold trainings of different settings.")
    measured = Measured(content)
    about = "20 Newsgroups: {words} words of {documents} messages"
    about = {"data": about.format(**measured.settings), "seeds": measured.every_seed}
    tools.print_and_save(tables_of(measured), content, options.results, **about)
    if options.picture:
        draw(measured, options.picture)


if __name__ == "__main__":
    main()
