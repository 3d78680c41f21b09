"""Streams whose bodies stay on a device: the classes for a client with a device-aware transport."""

from __future__ import annotations

from arrowipc.dissociated.memory.device_bodies import DeviceBatch, DeviceDecoder, DeviceMemory

__all__ = ["DeviceBatch", "DeviceDecoder", "DeviceMemory"]
