"""A certificate that cannot be used: the message is a sentence about the file that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti import errors, x509
from ganeti.rapi.transport import serving


@pytest.fixture
def files(tmp_path: Path) -> Path:
    key, certificate = x509.MakeSelfSigned("rapi.example.com")
    other_key, _ = x509.MakeSelfSigned("other.example.com")
    for name, text in {
        "both": key + certificate,
        "certificate": certificate,
        "key": key,
        "other": other_key,
        "empty": "",
        "text": "root:x:0:0::/root:/bin/sh\n",
        "torn": certificate[: len(certificate) // 2],
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("certificate", "key", "chain", "message"),
    [
        ("both", "both", "nope", "{}/nope: No such file or directory"),
        ("both", "both", "text", "{}/text: there is no certificate in it"),
        ("both", "both", "torn", "{}/torn: cannot be used: "),
        ("nope", "nope", None, "{}/nope: No such file or directory"),
        ("both", "nope", None, "{}/nope: No such file or directory"),
        ("text", "text", None, "{}/text: there is no certificate in it"),
        ("empty", "both", None, "{}/empty: there is no certificate in it"),
        ("certificate", "certificate", None, "{}/certificate: there is no private key in it"),
        ("both", "other", None, "{}/other: cannot be used: the private key in it was not made for the certificate"),
    ],
)
def test_the_file_that_is_wrong_is_named(
    files: Path, certificate: str, key: str, chain: str | None, message: str
) -> None:
    with pytest.raises(errors.X509CertError) as caught:
        serving.TlsContext(str(files / certificate), str(files / key), chain and str(files / chain))
    assert str(caught.value).startswith(message.format(files)) and "(" not in str(caught.value)


def test_right_files_are_used(files: Path) -> None:
    serving.TlsContext(str(files / "certificate"), str(files / "key"), str(files / "certificate"))
