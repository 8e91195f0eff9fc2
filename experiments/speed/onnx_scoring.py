"""Scoring in onnxruntime: a model of 10 cases and 5 features beside scikit-learn's SVC, 10^5 rows.

    python -m experiments.speed.onnx_scoring

It needs onnxruntime and skl2onnx: pip install --group bench 'tamis[onnx]'. Both classifiers are fitted to the same
generated table of 5 columns and score the same rows with the same threads. Prints a Markdown table; the committed one
is in experiments/README.md.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import onnxruntime
from sklearn.datasets import make_classification
from sklearn.svm import SVC

import tamis
from experiments.speed.timing import best, versions

ROWS, TRAINING = 100_000, 5_000
LEAN = ("label", "score")


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows with their classes, and rows to score, of 5 informative columns."""
    X, y = make_classification(
        ROWS + TRAINING, 5, n_informative=5, n_redundant=0, n_clusters_per_class=3, class_sep=0.8, random_state=0
    )
    return X[:TRAINING], y[:TRAINING], X[TRAINING:]


def session(model, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def milliseconds(model, rows: np.ndarray, threads: int, repeats: int) -> float:
    """The shortest of some runs, after a first one."""
    running = session(model, threads)
    running.run(None, {"X": rows})
    return 1e3 * best(lambda: running.run(None, {"X": rows}), repeats)


def agree(model, clf, rows: np.ndarray) -> None:
    """Stop where the graph says something else than the classifier."""
    label, score = session(model, 1).run(["label", "score"], {"X": rows})
    assert np.array_equal(label, clf.predict(rows))
    assert np.abs(score - clf.decision_function(rows)).max() < {"float32": 1e-5, "float64": 1e-9}[rows.dtype.name]


def svc_model(clf: SVC):
    """What skl2onnx makes of an SVC without probabilities: label and decision values, of float32."""
    from skl2onnx import to_onnx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(clf, np.zeros((1, 5), dtype="float32"), options={"raw_scores": True, "zipmap": False})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args()
    X, y, rows = table()
    ours = tamis.EM2NOLCClassifier(max_instances=10, max_features=5, calibration=None).fit(X, y)
    svc = SVC().fit(X, y)
    assert (len(ours.instances_), len(ours.features_)) == (10, 5)
    print(f"{versions(('onnxruntime', 'scikit-learn'))};")
    print(f"{TRAINING} training rows, SVC keeps {len(svc.support_)} support vectors; milliseconds for {ROWS} rows\n")
    print("| numbers | threads | SVC | label and score | ratio | with contributions |")
    print("|---|---|---|---|---|---|")
    for dtype in ("float32", "float64"):
        cells = rows.astype(dtype)
        quick, whole = tamis.io.to_onnx(ours, dtype=dtype, outputs=LEAN), tamis.io.to_onnx(ours, dtype=dtype)
        agree(quick, ours, cells[:5000])
        for threads in args.threads:
            theirs = milliseconds(svc_model(svc), rows.astype("float32"), threads, args.repeats)
            mine, full = (milliseconds(model, cells, threads, args.repeats) for model in (quick, whole))
            print(
                f"| {dtype} | {threads} | {theirs:.0f} | {mine:.1f} | {theirs / mine:.0f} | {full:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
