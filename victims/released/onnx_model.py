"""A model in ONNX as the torch module that computes the same; needs the extra `onnx`."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from victims.errors import UserError

SUFFIX = ".onnx"


def onnx_module(path: Path) -> nn.Module:
    """Return the module that an ONNX file describes, with its weights, in evaluation mode.

    Raises:
        UserError: the extra is not installed, the file is no ONNX model in one piece, or has an operator that
            onnx2torch does not know.
    """
    try:
        import onnx
        from onnx2torch import convert
    except ImportError:
        raise UserError(f"{path} needs onnx and onnx2torch; pip install 'reconstruction-bench[onnx]'") from None
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own, which are not documented
        raise UserError(f"{path} cannot be read as ONNX ({' '.join(str(error).split())})") from None
    if any(onnx.external_data_helper.uses_external_data(tensor) for tensor in model.graph.initializer):
        hint = "save it in one file: onnx.save(onnx.load(PATH), ONE_FILE, save_as_external_data=False)"
        raise UserError(f"{path} has its weights in another file; {hint}")
    try:
        module: nn.Module = convert(model)
    except Exception as error:  # what it raises for an operator that it does not know is not documented
        reason = " ".join(str(error).split())
        raise UserError(f"{path} has what onnx2torch cannot convert ({reason}); give `network` and `weights`") from None
    return module.eval()
