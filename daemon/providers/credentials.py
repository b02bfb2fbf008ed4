"""How each service wants to be shown its key."""


def credentials(kind: str, api_key: str) -> dict[str, str]:
    """The headers that a request to this kind of service begins with."""
    if kind == "anthropic":
        return {"anthropic-version": "2023-06-01", **({"x-api-key": api_key} if api_key else {})}
    if kind == "gemini":
        return {"x-goog-api-key": api_key} if api_key else {}
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
