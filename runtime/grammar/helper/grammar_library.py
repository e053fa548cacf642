"""Calls of the grammar library's methods through tvm-ffi's C ABI, as runtime/grammar/tvm_ffi.h describes it."""

import ctypes

NONE, INT, BOOL, TEXT, SMALL_STRING, STRING = 0, 1, 2, 8, 11, 65
HEAD_BYTES = 24  # of a counted object


class Refused(Exception):
    """The library refuses a call; the message gives the reason."""


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def value(self):
        return ctypes.string_at(self.data, self.size).decode("utf-8", "replace")


class Value(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("pointer", ctypes.c_void_p), ("small", ctypes.c_char * 8)]


class Any(ctypes.Structure):
    _anonymous_ = ("value",)
    _fields_ = [("type", ctypes.c_int32), ("small_bytes", ctypes.c_uint32), ("value", Value)]


class Method(ctypes.Structure):
    _fields_ = [("name", Bytes), ("doc", Bytes), ("metadata", Bytes), ("flags", ctypes.c_int64), ("function", Any)]


class Type(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int32), ("depth", ctypes.c_int32), ("key", Bytes), ("ancestors", ctypes.c_void_p),
                ("key_hash", ctypes.c_uint64), ("n_fields", ctypes.c_int32), ("n_methods", ctypes.c_int32),
                ("fields", ctypes.c_void_p), ("methods", ctypes.POINTER(Method)), ("metadata", ctypes.c_void_p)]


class Library:
    def __init__(self, ffi_path, library_path):
        self.ffi = ctypes.CDLL(ffi_path, mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(library_path)
        self.ffi.TVMFFIGetTypeInfo.restype = ctypes.POINTER(Type)

    def methods(self, name):
        """The methods of a type of the library, by name."""
        key = f"xgrammar.tvm_ffi_binding.{name}".encode()
        index = ctypes.c_int32()
        text = ctypes.create_string_buffer(key)
        if self.ffi.TVMFFITypeKeyToIndex(ctypes.byref(Bytes(ctypes.addressof(text), len(key))), ctypes.byref(index)):
            raise Refused(f"the grammar library lacks the type {name}")
        found = self.ffi.TVMFFIGetTypeInfo(index).contents
        return {found.methods[i].name.value(): found.methods[i].function for i in range(found.n_methods)}

    def call(self, function, *arguments):
        """The result, which release gives up. Text must not contain a NUL."""
        values, kept, result = (Any * len(arguments))(), [], Any()
        for value, argument in zip(values, arguments):
            if isinstance(argument, Any):
                value.type, value.small_bytes, value.integer = argument.type, argument.small_bytes, argument.integer
            elif isinstance(argument, bool):
                value.type, value.integer = BOOL, argument
            elif isinstance(argument, int):
                value.type, value.integer = INT, argument
            elif isinstance(argument, str):
                kept.append(ctypes.create_string_buffer(argument.encode()))
                value.type, value.pointer = TEXT, ctypes.addressof(kept[-1])
        if self.ffi.TVMFFIFunctionCall(ctypes.c_void_p(function.pointer), values, len(arguments), ctypes.byref(result)):
            raise Refused(self.take_error())
        return result

    def take_error(self):
        error = ctypes.c_void_p()
        self.ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
        _, message = ctypes.cast(error.value + HEAD_BYTES, ctypes.POINTER(Bytes * 2)).contents
        text = message.value()
        self.ffi.TVMFFIObjectDecRef(error)
        return text

    def text(self, value):
        if value.type == SMALL_STRING:
            return ctypes.string_at(ctypes.addressof(value) + 8, value.small_bytes).decode()
        if value.type != STRING:
            raise Refused(f"the grammar library returned no text, but type {value.type}")
        return ctypes.cast(value.pointer + HEAD_BYTES, ctypes.POINTER(Bytes)).contents.value()

    def release(self, value):
        if value.type >= 64:
            self.ffi.TVMFFIObjectDecRef(ctypes.c_void_p(value.pointer))
