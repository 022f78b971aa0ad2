"""What a training prints of an epoch: one line that fits the terminal."""

from numbers import Real

from skorch.callbacks import Callback

from skhash.utils.progress import duration, fitting, terminal_width

# Of what skorch keeps of an epoch: not for people, or said in other words.
HIDDEN = ("batches", "epoch", "dur", "train_batch_count", "valid_batch_count")
LOSSES = ("train_loss", "valid_loss")


class EpochLog(Callback):
    """Prints a line an epoch where the net is verbose.

    It has the epoch, the losses, what is left if all epochs are trained, the seconds,
    then what other callbacks have recorded. A terminal that is too narrow shows the
    first of these.
    """

    def on_train_begin(self, net, **kwargs):
        self.n_before_ = len(net.history)

    def on_epoch_end(self, net, **kwargs):
        if net.verbose:
            records = net.history[self.n_before_ :]
            parts = epoch_parts(records, net.n_asked)
            print(fitting(parts, terminal_width()), flush=True)


def epoch_parts(records, n_asked) -> list[str]:
    """Return what is said of the last epoch, what matters most first.

    Parameters
    ----------
    records : list of dict
        Those of the epochs of this training, in the words of skorch.
    n_asked : int
        The epochs that it may have.
    """
    record, n_done = records[-1], len(records)
    epoch = record["epoch"]
    last = epoch + n_asked - n_done
    # A stream goes on by one epoch at a time and has no end.
    end = f"/{last}" if n_asked > 1 else ""
    parts = [f"epoch {epoch:{len(str(last))}}{end}"]
    parts += [f"{name} {record[name]:.4f}" for name in LOSSES if name in record]
    if n_asked > n_done:
        seconds = sum(one["dur"] for one in records) / n_done
        parts.append(f"{duration(seconds * (n_asked - n_done))} left")
    parts.append(f"{record['dur']:.2f} s")
    return parts + [
        f"{name} {value:.4g}"
        for name, value in sorted(record.items())
        if name not in (*HIDDEN, *LOSSES)
        and not name.endswith("_best")
        and isinstance(value, Real)
        and not isinstance(value, bool)
    ]
