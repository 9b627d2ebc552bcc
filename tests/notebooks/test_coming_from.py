"""The tables of what comes from where: each call in the column of ours runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "notebooks"
NAMES = tuple(path.stem for path in sorted(PAGES.glob("coming_from_*.md")))


def rows(page):
    """Yield theirs and ours of each row of a page's tables."""
    for line in (PAGES / f"{page}.md").read_text("utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 5 and "`" in cells[2] and not cells[1].startswith("-"):
            yield cells[1].strip(), cells[2].strip()


def setup(page):
    text = (PAGES / f"{page}.md").read_text("utf-8")
    return re.search(r"```python\n(.*?)```", text, re.S)[1]


CALLS = [(page, *row) for page in NAMES for row in rows(page)]


@pytest.mark.parametrize(("page", "theirs", "ours"), CALLS, ids=[ours for _, _, ours in CALLS])
def test_each_call_of_ours_runs(page, theirs, ours):
    code = re.fullmatch(r"`([^`]+)`", ours)
    assert code, f"one piece of code: {ours}"
    space = {}
    exec(setup(page), space)
    exec(code[1].replace(r"\|", "|"), space)


SAMEDIFF = """
    placeHolder var constant scalar createSequence setTrainable convertToConstant convertToVariable
    convertConstantsToVariables convertDataTypes freeze setArray castTo get put assign shape rank
    withNameScope rename renameVariable getVariable hasVariable variables placeHolders constants
    inputs outputs variableMap variableNames getOpsInScope getVariableOutputOp getInputsForOp
    summary asFlatPrint replaceArgFor output outputSingle outputAll batchOutput calculateGradients
    calculateGradientsAndOutputs grad gradient createGradFunction setLossVariables markAsLoss invoke
    defineFunction enableEagerMode enableDebugMode ifCond whileLoop loopWithConditions
    addControlDependency updater l1 l2 weightDecay minimize dataSetFeatureMapping
    dataSetLabelMapping dataSetLabelMaskMapping markLabelsUnused toJson fromJson fit lossCurve
    trainingTimeMillis evaluate calcRegularizationScore prepareForTraining save load doUdf
    invalidateAllPlanCaches computeDataType lossScaling gradientAccumulationSteps
    learningRateMultipliers gradientCheckpoint fp8 applyPeft getTrainableParameters
    printTrainableParameters saveAdapters loadAdapters fitGRPO
"""
ANEFORGE = """
    backward backward_from vjp parameter conv_param conv2d softmax_cross_entropy mse SGD Adam
    adam_step Trainer set_dataset step loss accuracy release UnrolledTrainer predict
    CheckpointedStack compile compile_multi
"""


@pytest.mark.parametrize(
    ("page", "names"),
    [("coming_from_samediff", SAMEDIFF), ("coming_from_aneforge_and_toy", ANEFORGE)],
)
def test_no_call_of_theirs_is_left_out(page, names):
    theirs = " ".join(theirs for theirs, _ in rows(page))
    assert not [n for n in names.split() if not re.search(rf"\b{n}\b", theirs)]
