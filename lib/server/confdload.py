"""What ganeti-confd answers from: the key and the configuration, read anew when their files change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import configfile, errors, hosts, objects, pathutils, renewal, runtime, serializer
from ganeti.confd import link
from ganeti.confd.view import View
from ganeti.configfile.load import MAX_CONFIG
from ganeti.daemon import memory
from ganeti.utils.files import FileIdentity, IdentityOf

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# Seconds between two looks at the files, whatever was noticed or not; the second where changes cannot be noticed.
CHECK_EVERY = 17.0
CHECK_WITHOUT_WATCH = 1.0
# After a change the files are left alone for this time, and so many times the time that reading them took.
PAUSE = 0.25
PAUSE_FACTOR = 4.0
# Objects of a former configuration.
_FREED_AT_ONCE = 20


class State(NamedTuple):
    """What a question is answered from; without a key, or without a view and a failure, there is no answer.

    ``keys``: the one in use first; those that are accepted beside it while the key is renewed.
    """

    keys: tuple[bytes, ...] = ()
    view: View | None = None
    failure: str = ""


def _Files() -> list[str]:
    return [pathutils.CLUSTER_CONF_FILE, *renewal.Paths(pathutils.CONFD_HMAC_KEY)]


class Loader:
    """Keeps ``state`` up to date.  ``Run`` is a thread's life; others only read ``state``, which is replaced as a whole."""

    def __init__(self) -> None:
        self.state = State()
        self._known: list[FileIdentity] = []
        self._silence = ""

    def Look(self) -> bool:
        """Read the files if they changed since the last look; return whether they did."""
        # Taken before reading: a file that changes meanwhile differs at the next look.
        found = [IdentityOf(path) for path in _Files()]
        if found == self._known:
            return False
        self._known = found
        former = _Objects(self.state.view)
        again = self.state.view is not None
        with memory.SettingAside():
            self.state, silence = self._Read()
        # What is reported is true by now.
        self._Report(silence, again)
        # Nothing else refers to these now.
        _Free(former)
        memory.GiveBack()
        return True

    def _Read(self) -> tuple[State, str]:
        """Return the state that the files make, and why no question is answered, empty if some are."""
        try:
            keys = link.ReadKeys()
        except errors.ConfigurationError as err:
            return State(), str(err)
        try:
            text = runtime.ReadFile(pathutils.CLUSTER_CONF_FILE, MAX_CONFIG)
        except FileNotFoundError:
            return State(), "this node has no copy of the configuration: it is not a master candidate"
        except (OSError, runtime.FileTooLarge) as err:
            return State(keys, failure=f"The configuration cannot be read: {err}"), ""
        try:
            view = _Build(text)
        except errors.GenericError as err:
            return State(keys, failure=f"The configuration cannot be read: {err}"), ""
        except Exception as err:
            # Whatever is wrong with this file, the next one may be fine.
            logging.debug("While the configuration was read", exc_info=True)
            # What such an error quotes is for the log only.
            logging.error("The configuration cannot be read: %s: %s", type(err).__name__, err)
            return State(keys, failure="The configuration cannot be read; the log of this daemon says more"), ""
        if not (view.MayAnswer(pathutils.HostName()) or view.MayAnswer(hosts.OwnName())):
            return State(), "this node is not a master candidate"
        return State(keys, view), ""

    def _Report(self, silence: str, again: bool) -> None:
        """Write what has become of a change; ``again``: questions were answered before."""
        if self.state.failure:
            logging.error("%s: every question is answered with this error", self.state.failure)
        elif self.state.view is None:
            if silence != self._silence:
                logging.info("No question is answered: %s", silence)
                self._silence = silence
        else:
            if self._silence:
                logging.info("This node is a master candidate now: questions are answered")
                self._silence = ""
            # It changes twice a second on a busy cluster.
            level = logging.DEBUG if again else logging.INFO
            logging.log(level, "Read the configuration with serial number %d", self.state.view.root.serial_no)

    def Run(self) -> None:
        """Follow the files for as long as the process lives."""
        watch = _Watch()
        while True:
            # First of all for what changed before the watch began.
            self.LookPatiently()
            if watch is None:
                runtime.Sleep(CHECK_WITHOUT_WATCH)
            else:
                watch.wait(CHECK_EVERY)

    def LookPatiently(self) -> None:
        """Look, and after a change leave the files alone for a while: they may change twice a second."""
        begin = runtime.Monotonic()
        if self.Look():
            runtime.Sleep(max(PAUSE, PAUSE_FACTOR * (runtime.Monotonic() - begin)))


def _Build(text: bytes) -> View:
    data = serializer.LoadProper(text, limit=MAX_CONFIG)
    view = View(configfile.LoadDict(data))
    parts = [list(data.pop(attribute).values()) for _, attribute, _ in objects.KIND_MAPS]
    _Free(parts)
    return view


def _Objects(view: View | None) -> list[list[Any]]:
    if view is None:
        return []
    return [list(getattr(view.root, attribute).values()) for _, attribute, _ in objects.KIND_MAPS]


def _Free(parts: list[list[Any]]) -> None:
    """Free many objects little by little: nobody can be answered while Python frees them in one piece."""
    for part in parts:
        while part:
            del part[-_FREED_AT_ONCE:]


def _Watch() -> protocols.Watch | None:
    try:
        return runtime.WatchFiles(_Files())
    except errors.InotifyError as err:
        logging.warning("Changes of the configuration are noticed later: %s", err)
        return None
