"""Model files of random numbers for the programs of this folder, written once, and the profiles that name them."""

import json
import pathlib
import sys

import checkpoint


class ModelFiles:
    """A folder in which whatever was written stays for the next time."""

    def __init__(self, folder, make=True):
        self.folder = pathlib.Path(folder).resolve()
        if make:
            self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name, storage, layers=None, mark=""):
        ending = "gguf" if storage.startswith("q") else "safetensors"
        of_layers = f"-{layers}" if layers else ""
        return self.folder / f"{name}-{storage}{of_layers}{mark}.{ending}"

    def model(self, name, storage, layers=None, mark="", **facts):
        """mark: of files that say other facts than those usually do, which is why they need a name of their own."""
        path = self.path(name, storage, layers, mark)
        if not path.exists():
            print(f"writing {path}", file=sys.stderr)
            checkpoint.write(path, name, storage, layers, facts=facts)
        return path

    def profile_path(self, architecture, files):
        name = "-".join([architecture, *(path.stem for path in files.values())])
        return self.folder / f"{name}.toml"

    def profile(self, architecture, variant, files):
        """A models.toml whose only profile has these files, by their names there."""
        lines = ['default_model = "bench"', "[model_profiles.bench]", f"architecture = {json.dumps(architecture)}"]
        lines += [f"variant = {json.dumps(variant)}"]
        lines += [f"{slot} = {json.dumps(str(path))}" for slot, path in files.items()]
        config = self.profile_path(architecture, files)
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return config
