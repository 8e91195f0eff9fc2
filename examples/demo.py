"""Tune, test and explain a classifier on the breast-cancer table that ships with scikit-learn."""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import train_test_split

import tamis


def main() -> None:
    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    labels = np.where(data.target == 0, "malignant", "benign")
    X, X_test, y, y_test = train_test_split(data.data, labels, test_size=0.3, stratify=labels, random_state=0)

    start = time.perf_counter()
    clf = tamis.EM2NOLCClassifierCV(max_instances=20, max_features=20, rule="one_se", random_state=0).fit(X, y)
    seconds = time.perf_counter() - start

    predicted, score = clf.predict(X_test), clf.predict_proba(X_test)[:, 1]
    benign, malignant = confusion_matrix(y_test, predicted)
    print(f"Trained on {len(X)} cases with {X.shape[1]} features, tuned by cross-validation, in {seconds:.1f} s.")
    print(
        f"The model keeps {len(clf.instances_)} cases and {len(clf.features_)} features "
        f"(bandwidth {clf.bandwidth_}, alpha {clf.alpha_})."
    )
    print(f"\nOn {len(X_test)} held-out cases")
    print(f"  accuracy {np.mean(predicted == y_test):.3f}   AUC {roc_auc_score(y_test == 'malignant', score):.3f}")
    print("                    said benign   said malignant")
    print(f"  benign            {benign[0]:11d}   {benign[1]:14d}")
    print(f"  malignant         {malignant[0]:11d}   {malignant[1]:14d}")

    print("\nKept features                  importance    share of variation")
    for k in np.argsort(-clf.feature_variation_):
        name = names[clf.features_[k]]
        print(f"  {name:28s} {clf.feature_importance_[k]:+8.1f} %   {clf.feature_variation_[k]:12.1f} %")
    print("\nKept training cases            importance    share of variation")
    for k in np.argsort(-clf.instance_variation_):
        case = f"row {clf.instances_[k]} ({y[clf.instances_[k]]})"
        print(f"  {case:28s} {clf.instance_importance_[k]:+8.1f} %   {clf.instance_variation_[k]:12.1f} %")

    row = int(np.argmin(np.abs(score - 0.5)))
    explanation = clf.explain(X_test[[row]])
    print(f"\nThe least certain held-out case: {y_test[row]}, said {predicted[row]}, ", end="")
    print(f"probability of malignant {score[row]:.2f}")
    print(f"  base value                   {explanation.base_value[0]:+.3f}")
    parts = explanation.by_feature[0, 0]
    for k in np.argsort(-np.abs(parts)):
        column = clf.features_[k]
        print(f"  {names[column]:22s} = {X_test[row, column]:<8.4g} {parts[k]:+.3f}")
    print(f"  sum                          {explanation.base_value[0] + parts.sum():+.3f}", end="")
    print(f"   (decision {clf.decision_function(X_test[[row]])[0]:+.3f})")


if __name__ == "__main__":
    main()
