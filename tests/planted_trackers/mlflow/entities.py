"""Values of MLflow as tuples."""


def Metric(*values):
    return values


Param = RunTag = Metric
