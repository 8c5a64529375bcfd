"""The library that Outrider's three services share; nothing in it imports a service."""
