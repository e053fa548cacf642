/* tvm_ffi.h - the part of tvm-ffi's C ABI that the grammar library is called through, after its documentation
 * (tvm/ffi/c_api.h of version 0.1 and dlpack/dlpack.h). Names are ours, layouts theirs. */
#ifndef YK_GRAMMAR_TVM_FFI_H
#define YK_GRAMMAR_TVM_FFI_H

#include <stddef.h>
#include <stdint.h>

/* The ABI is fixed for a pair of major and minor version. */
enum { YK_FFI_MAJOR = 0, YK_FFI_MINOR = 1 };

typedef struct yk_ffi_version {
  uint32_t major, minor, patch;
} yk_ffi_version;

/* Type indices of yk_ffi_any. */
enum {
  YK_FFI_NONE = 0,
  YK_FFI_INT = 1,
  YK_FFI_BOOL = 2,
  YK_FFI_TENSOR_POINTER = 7, /* yk_ffi_tensor *, for an argument */
  YK_FFI_TEXT = 8,           /* const char *, NUL-terminated, for an argument */
  YK_FFI_BYTES_POINTER = 9,  /* yk_ffi_bytes *, for an argument */
  YK_FFI_SMALL_STRING = 11,  /* up to 7 bytes in the value itself */
  YK_FFI_FIRST_OBJECT = 64,  /* this and every higher type is a counted object */
  YK_FFI_STRING = 65,
  YK_FFI_FUNCTION = 68
};

typedef struct yk_ffi_object {
  uint64_t counts;
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
} yk_ffi_object;

typedef struct yk_ffi_bytes {
  const char *data;
  size_t size;
} yk_ffi_bytes;

typedef struct yk_ffi_any {
  int32_t type_index;
  uint32_t small_bytes; /* of a small string; else 0 */
  union {
    int64_t integer;
    void *pointer;
    yk_ffi_object *object;
    char small[8];
  };
} yk_ffi_any;

/* Behind the head of a string; after the head of an error: kind, then message. */
typedef struct yk_ffi_string {
  yk_ffi_object head;
  yk_ffi_bytes bytes;
} yk_ffi_string;

typedef struct yk_ffi_error {
  yk_ffi_object head;
  yk_ffi_bytes kind, message;
} yk_ffi_error;

typedef struct yk_ffi_method {
  yk_ffi_bytes name, doc, metadata;
  int64_t flags;
  yk_ffi_any function;
} yk_ffi_method;

typedef struct yk_ffi_type {
  int32_t type_index, type_depth;
  yk_ffi_bytes key;
  const struct yk_ffi_type **ancestors;
  uint64_t key_hash;
  int32_t n_fields, n_methods;
  const void *fields;
  const yk_ffi_method *methods;
  const void *metadata;
} yk_ffi_type;

/* DLTensor. */
typedef struct yk_ffi_tensor {
  void *data;
  int32_t device_type, device_id; /* 1: the CPU */
  int32_t n_dims;
  uint8_t type_code, type_bits; /* code 0: signed integers */
  uint16_t type_lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} yk_ffi_tensor;

/* Functions of libtvm_ffi.so. Each that returns int returns 0, or else the error is to be moved out. */
typedef struct yk_ffi_functions {
  void (*version)(yk_ffi_version *out);
  int (*type_index_of)(const yk_ffi_bytes *key, int32_t *out);
  const yk_ffi_type *(*type_info)(int32_t type_index);
  int (*function_global)(const yk_ffi_bytes *name, void **out);
  int (*call)(void *function, yk_ffi_any *args, int32_t n_args, yk_ffi_any *result);
  void (*move_error)(void **out);
  int (*release)(void *object);
} yk_ffi_functions;

#endif
