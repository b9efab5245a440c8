"""The main job: devices that rated items answer queries, and an untrusted server learns from them."""
