"""The query of a URL in a text, which may be the signature of a signed link, is masked as a whole."""

from __future__ import annotations

import pytest

from queuemgr.base.redaction import masked

URLS = {
    "https://a.example/p?sig=s3cret": "https://a.example/p?***",
    "HTTPS://a.example?sig=s3cret": "HTTPS://a.example?***",
    "https://a.example/it's?sig=s3cret": "https://a.example/it's?***",
    "https://a.example/p?a='x'&sig=s3cret": "https://a.example/p?***",
    "https://a.example/p#s3cret": "https://a.example/p?***",
    'see "https://a.example/p?s3cret" and https://b.example/?s3cret.': (
        'see "https://a.example/p?***" and https://b.example/?***'
    ),
    "<https://a.example/p?s3cret> is": "<https://a.example/p?***> is",
    "s3://bucket/key?X-Amz-Signature=s3cret rest": "s3://bucket/key?*** rest",
    "no question? none": "no question? none",
}


@pytest.mark.parametrize("text", URLS)
def test_a_query_is_masked_to_its_end(text: str) -> None:
    assert masked({"link": [text]}) == {"link": [URLS[text]]}
