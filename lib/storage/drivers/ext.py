"""Volumes of external providers: template ``ext``.  Logical id: [provider, name]; parameters are the provider's.

Only the provider knows whether a volume is attached, and its attach script is the only way to ask; it may be repeated.
So a look attaches, on the nodes that are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors
from ganeti.storage.drivers.device import NodeDevice
from ganeti.storage.utilities import extprovider, lvmtools
from ganeti.storage.utilities.extprovider import Provider

# Parameters of the template itself, which no provider lists.
_OWN_PARAMETERS = ("provider", "access")


class ProvidedVolume(NodeDevice):
    """A volume that a provider's scripts make and reach."""

    _uris: Mapping[str, str] = {}
    _trouble: str | None = None

    @property
    def if_missing(self) -> str:
        return self._trouble or self.IF_MISSING

    # --- looking ------------------------------------------------------------------------------------------------------

    def Attach(self) -> bool:
        """Attach the volume.  A script that reports a failure says that there is none; one that cannot do its work raises."""
        self._SetGone()
        self._trouble = None
        try:
            output = self._Run(extprovider.ATTACH)
        except extprovider.ScriptFailed as err:
            self._trouble = str(err)
            return False
        try:
            found = extprovider.ParseAttach(output)
            if found.path is None:
                self._SetFound(None)
            else:
                self._Take(found.path)
        except ValueError as err:
            raise errors.BlockDeviceError(
                f"{self}: {self._Script(extprovider.ATTACH)} printed {err}; correct it"
            ) from err
        except errors.BlockDeviceError as err:
            raise errors.BlockDeviceError(f"{err}; it is what the {self._Script(extprovider.ATTACH)} printed") from err
        self._uris = found.uris
        return True

    def UserspaceUri(self, hypervisor: str) -> str | None:
        """Return the provider's URI for a hypervisor, which it must have where it is the only way to the data."""
        uri = self._uris.get(hypervisor)
        if self.userspace and uri is not None:
            return uri
        if self.dev_path is None or (self.userspace and hypervisor == constants.HT_KVM):
            have = f"a URI for {', '.join(sorted(self._uris))}" if self._uris else "no URI"
            device = "no device" if self.dev_path is None else f"the device {self.dev_path}"
            raise errors.BlockDeviceError(
                f"{self}: cannot be used by hypervisor {hypervisor} with access="
                f"{self.disk.params.get('access', 'kernelspace')}: {self._Script(extprovider.ATTACH)} printed {device} and"
                f" {have}; change the access with 'gnt-cluster modify -D ext:access=...' or correct the provider"
            )
        return None

    # --- life ---------------------------------------------------------------------------------------------------------

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._CheckShared(exclusive)
        self._CheckParameters(self._Provider())
        self._Run(extprovider.CREATE, VOL_SIZE=size)

    def Assemble(self) -> None:
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self.if_missing}\n{self.IfLost('the volume')}")

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        self._Run(extprovider.OPEN, VOL_OPEN_EXCLUSIVE=exclusive)

    def Close(self) -> None:
        self._Run(extprovider.CLOSE)

    def Shutdown(self) -> None:
        self._Run(extprovider.DETACH)
        self._SetGone()

    def Remove(self) -> None:
        self.Shutdown()
        self._Run(extprovider.REMOVE)

    # --- change -------------------------------------------------------------------------------------------------------

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        self._CheckGrowth(amount)
        if not dry_run and backing_store:
            self._Run(extprovider.GROW, VOL_SIZE=self.disk.size, VOL_NEW_SIZE=self.disk.size + amount)

    def Snapshot(self, name: str | None = None, size: int | None = None) -> list[Any]:
        provider = self._Provider()
        if extprovider.SNAPSHOT not in provider.scripts:
            raise errors.BlockDeviceError(
                f"{self}: storage provider {provider.name} cannot make snapshots: it has no script {provider.path}/snapshot"
            )
        _, volume = self._Id()
        target = name or f"{volume}.snap"
        self._Run(extprovider.SNAPSHOT, VOL_SNAPSHOT_NAME=target, VOL_SNAPSHOT_SIZE=size or self.disk.size)
        return [provider.name, target]

    def SetInfo(self, text: str) -> None:
        if text:
            self._Run(extprovider.SETINFO, VOL_METADATA=lvmtools.MakeTag(text))

    # --- scripts ------------------------------------------------------------------------------------------------------

    def _Run(self, action: str, **extra: object) -> str:
        provider = self._Provider()
        return extprovider.Run(provider, action, self.disk, str(self), {name: str(v) for name, v in extra.items()})

    def _Provider(self) -> Provider:
        name, _ = self._Id()
        for key, value in self.disk.params.items():
            if not key or "=" in key or "\0" in f"{key}{value}":
                raise errors.BlockDeviceError(f"{self}: parameter {key!r} cannot be handed to a script")
        try:
            return extprovider.Load(name)
        except extprovider.ProviderError as err:
            raise errors.BlockDeviceError(f"{self}: {err}") from err

    def _Script(self, action: str) -> str:
        return f"{action} script of storage provider {self._Id()[0]}"

    def _CheckParameters(self, provider: Provider) -> None:
        unknown = sorted(set(self.disk.params) - {*provider.parameter_names, *_OWN_PARAMETERS})
        if unknown:
            known = ", ".join(provider.parameter_names) or "none"
            raise errors.BlockDeviceError(
                f"{self}: storage provider {provider.name} has no parameter {', '.join(unknown)}; it has: {known}"
            )

    def _Id(self) -> tuple[str, str]:
        if len(self.unique_id) != 2 or not all(
            isinstance(part, str) and part.isprintable() and part for part in self.unique_id
        ):
            raise errors.BlockDeviceError(f"{self}: logical id must be [provider, name]")
        provider, volume = self.unique_id
        return provider, volume

    def _Path(self) -> str:
        if self.attached and self.dev_path is None:
            raise errors.BlockDeviceError(
                f"{self}: its provider attaches it as no block device of this node, so only a hypervisor can reach its data"
            )
        return super()._Path()
