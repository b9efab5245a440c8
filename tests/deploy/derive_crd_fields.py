"""Derives `crd-fields.json`, the fields of KubeRay's resources that our manifests may use, from KubeRay's definitions.

    python tests/deploy/derive_crd_fields.py CRD.yaml CRD.yaml --release 1.7.0 --commit COMMIT

The definitions (ray-operator/config/crd/bases/ray.io_rayclusters.yaml and ray.io_rayjobs.yaml of ray-project/kuberay,
2 MB) are read, not kept. Of every object that our manifests fill, the result names all plain fields with their types,
and those nested ones that the manifests fill as well: a JSON schema in which any other field is an error.
"""

import argparse
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
MANIFESTS = sorted((HERE.parents[1] / "deploy").glob("ray*.yaml"))
_PLAIN = ("string", "integer", "number", "boolean")
_KEPT = ("type", "enum", "minimum", "maximum", "pattern")


def narrowed(schema: dict[str, Any], used: list[Any]) -> dict[str, Any]:
    """The schema of one place in a manifest; `used` are the values that stand there."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    small = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in schema:
        small["items"] = narrowed(schema["items"], [one for value in used for one in value])
    if isinstance(schema.get("additionalProperties"), dict):
        small["additionalProperties"] = narrowed(schema["additionalProperties"], [])
    elif schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        small["additionalProperties"] = False
    if "properties" in schema:
        small["properties"] = _fields(schema["properties"], used)
        if required := [name for name in schema.get("required", ()) if name in small["properties"]]:
            small["required"] = required
    return small


def _fields(properties: dict[str, Any], used: list[Any]) -> dict[str, Any]:
    filled = {name for value in used for name in value}
    return {
        name: narrowed(schema, [value[name] for value in used if name in value])
        for name, schema in sorted(properties.items())
        if name in filled or schema.get("type") in _PLAIN
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("definitions", nargs=2, type=Path)
    parser.add_argument("--release", required=True)
    parser.add_argument("--commit", required=True)
    given = parser.parse_args()
    manifests = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in MANIFESTS]
    kinds: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for path in given.definitions:
        definition = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)["spec"]
        version = next(one for one in definition["versions"] if one["name"] == "v1")
        kind = definition["names"]["kind"]
        used = [manifest for manifest in manifests if manifest["kind"] == kind]
        whole = version["schema"]["openAPIV3Schema"]
        whole["properties"].pop("status", None)
        kinds[kind] = narrowed(whole, used)
        kinds[kind]["properties"]["metadata"] = {"type": "object"}
        sources[f"ray-operator/config/crd/bases/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    source = {"repository": "ray-project/kuberay", "release": given.release, "commit": given.commit, "sha256": sources}
    text = json.dumps({"source": source, "apiVersion": "ray.io/v1", "kinds": kinds}, indent=1) + "\n"
    text = re.sub(r"\{\s*(\"type\": \"\w+\")\s*\}", r"{\1}", text)
    (HERE / "crd-fields.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
