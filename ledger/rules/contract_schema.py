"""What may stand in a contract document, as a JSON Schema for editors?

It is made from the models that read the document, with their own words as descriptions. What a schema cannot say
(conditions that parse, promises that contradict each other, samples that come out differently) `contracts check` does.
"""

from datetime import timedelta
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from ledger.rules.contract import Contract
from ledger.rules.contract_sections import PRESET_TAKEN
from ledger.rules.durations import format_duration
from ledger.rules.presets import preset, preset_names

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
REQUIRED: Final = ("contract", "owner", "effect")


def contract_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a contract document, with a preset or whole."""
    schema = Contract.model_json_schema(by_alias=True, schema_generator=_Schema)
    properties = schema["properties"]
    properties["preset"] = {
        "description": "The half of the contract that the owner's documentation writes, by its name. With a date: it "
        "stands in this document already.",
        "anyOf": [
            {
                "oneOf": [
                    {"const": name, "title": preset(name).title, "description": preset(name).about}
                    for name in preset_names()
                ]
            },
            {"type": "string", "pattern": PRESET_TAKEN},
        ],
    }
    properties["with"] = {
        "type": "object",
        "description": "The values that the preset cannot know.",
        "properties": _parameters(),
    }
    return {"$schema": DIALECT, **schema, "title": "Contract", "required": list(REQUIRED)}


def _parameters() -> dict[str, Any]:
    """Every preset's parameters together; what one of them means is told with the preset's name."""
    means: dict[str, list[str]] = {}
    for name in preset_names():
        for parameter, about in preset(name).parameters.items():
            means.setdefault(parameter, []).append(f"{name}: {about.means}")
    return {parameter: {"description": "\n".join(sentences)} for parameter, sentences in sorted(means.items())}


class _Schema(GenerateJsonSchema):
    """Pydantic's own, with plain names and without its made-up titles."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def get_title_from_name(self, name: str) -> str:
        return name

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        for member in made.get("properties", {}).values():
            member.pop("title", None)
        return made
