"""The verb `check`: it tries whether attacks and victims of a file keep the contract of this suite.

Every claim is tried out, on victims that train in a moment; the verb does it in a process of its own (`isolated`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.check.claims import ContractClaim
from bench.plan import registry
from bench.plan.registry import ROOT, Registry
from victims.errors import UserError


def check_file(path: Path, settings: dict[str, Any], data_dir: Path | None) -> Iterator[ContractClaim]:
    """Yield what is claimed of every attack and victim of a file, one after the other.

    Args:
        path: a .py file.
        settings: parameters of its attacks, where the defaults take too long.
        data_dir: the data folder of its victims, None for the default.

    Raises:
        UserError: there is no such file, it holds no attack and no victim, or its attacks have no such parameter, or
            there are settings and no attack.
    """
    require_python_file(path)
    shipped = path.resolve().parent in (ROOT / "attacks", ROOT / "victims" / "zoo")
    origin = str(path.resolve().relative_to(ROOT)) if shipped else str(path)
    extra = None if shipped else path
    attacks, victims = registry.attacks(extra), registry.victims(extra)
    broken = [entry for entry in registry.broken(attacks, victims) if entry.origin == origin]
    reasons = [*(entry.reason for entry in broken), *_changed_torch()]
    yield ContractClaim(path.name, "imports, and what it declares is sound", "; ".join(reasons))
    own_attacks, own_victims = _own(attacks, origin), _own(victims, origin)
    if not broken and not own_attacks and not own_victims:
        hint = "`python -m bench new attack NAME` writes a file that does"
        raise UserError(f"{path} defines no Attack and no VICTIMS; {hint}")
    if settings and not broken and not own_attacks:
        raise UserError(f"--set is of an attack, and {path} defines none; leave it out")

    from bench.check.attack import attack_claims
    from bench.check.victim import victim_claims

    for attack in own_attacks:
        yield from attack_claims(attack, settings)
    for victim in own_victims:
        yield from victim_claims(victim, list(attacks.items.values()), data_dir)


def require_python_file(path: Path, holding: str = "an attack or VICTIMS") -> None:
    """Check that a path is a file that Python can import.

    Args:
        path: the file.
        holding: what it should define, for the message.

    Raises:
        UserError: there is no such file, or it is no .py file.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; name the file that defines {holding}")
    if path.suffix != ".py" or not path.is_file():
        raise UserError(f"{path} is no .py file; name the file that defines {holding}")


def _own(found: Registry[Any], origin: str) -> list[Any]:
    return [item for name, item in found.items.items() if found.origins[name] == origin]


def _changed_torch() -> Iterator[str]:
    """Yield a reason for each global setting of torch that an import changed, and restore the setting."""
    if "torch" not in sys.modules:
        return
    import torch

    if (dtype := torch.get_default_dtype()) != torch.float32:
        torch.set_default_dtype(torch.float32)
        yield f"its import makes {dtype} the default of torch, for everybody; name the dtype where it is meant"
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
        yield "its import turns gradients off, for everybody; write `with torch.no_grad():` where it is meant"
