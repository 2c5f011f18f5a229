"""Why a check puts a number in doubt, for readers of the page, who may not have docs/DOUBTS.md."""

DOUBTS = {
    "dead-gradients": "Where a model is equally unsure all over a ball its gradient can be exactly "
    "zero, and attacks that climb have nothing to climb.",
    "planted-errors": "Errors are planted in the model on purpose, and the attacks look for them. "
    "Attacks that miss those may miss real ones as well.",
    "black-box": "Attacks that only look at scores found errors that attacks with gradients had "
    "missed. Gradients mislead on this model, and more search would find more.",
    "still-rising": "The best score still rose in the last tenth of the passes. More iterations "
    "would find more.",
    "still-paying": "The last attack found errors that no attack before it had found. More attacks "
    "would find more.",
    "rest": "Attacks on an image end once it is an accepted error at the τ of 90 % TPR. At a "
    "larger τ the number is therefore a lower bound even of what these attacks can find.",
    "calibration": "Few calibration images lie below τ: other images would have chosen another τ, "
    "and the number would be another one.",
    "probabilities": "The model seems to return probabilities where logits are expected. It "
    "probably ends with a softmax: remove it.",
    "half": "A classifier that rejects with this error at ε could be turned into one with this "
    "error at ε/2 that does not reject, better than any that was published (Tramèr 2022). A weak "
    "attack is likelier.",
}
