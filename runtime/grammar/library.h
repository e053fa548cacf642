/* library.h - the grammar library xgrammar, loaded on demand from two shared libraries, and calls of its methods.
 *
 * A folder holds libtvm_ffi.so and libxgrammar_bindings.so, side by side or in tvm_ffi/lib and xgrammar, as pip's
 * --target lays the packages out. The version of the ABI and every method are checked, and one schema is compiled and
 * matched, before the library counts as loaded. */
#ifndef YK_GRAMMAR_LIBRARY_H
#define YK_GRAMMAR_LIBRARY_H

#include "base/status.h"
#include "base/strbuf.h"
#include "grammar/tvm_ffi.h"

typedef struct yk_grammar_library yk_grammar_library; /* owner: the creator; any number of threads may call at once */

typedef enum yk_grammar_method {
  YK_TOKENIZER_NEW,       /* array of bytes, int kind, int n_ids, array of end ids, bool -> tokenizer */
  YK_TOKENIZER_SERIALIZE, /* tokenizer -> text */
  YK_COMPILER_NEW,        /* tokenizer, int threads, bool, int, bool -> compiler */
  YK_COMPILER_SCHEMA, /* compiler, text, bool whitespace, none, none, bool strict, none, bool any_order -> grammar */
  YK_COMPILED_READ,   /* text, tokenizer -> grammar */
  YK_COMPILED_BYTES,  /* grammar -> int */
  YK_MATCHER_NEW,     /* grammar, array of end ids or none, bool, int, none -> matcher */
  YK_MATCHER_ACCEPT,  /* matcher, int id, bool -> bool */
  YK_MATCHER_ACCEPT_TEXT, /* matcher, text, bool -> bool */
  YK_MATCHER_RESTART,     /* matcher */
  YK_MATCHER_TAKE_BACK,   /* matcher, int: the last tokens or texts that it has accepted */
  YK_MATCHER_HAS_ENDED,   /* matcher -> bool: the end is accepted */
  YK_MATCHER_FILL,        /* matcher, tensor, int row, bool -> bool: whether any id is excluded */
  YK_N_GRAMMAR_METHODS
} yk_grammar_method;

/* yk_grammar_library_load - dir: a folder as above; NULL: $YOKE_GRAMMAR_LIBRARY, else the folder yoke-grammar in the
 *   library folder of this installation or in the build folder of this build.
 *   Errors: YK_E_UNSUPPORTED: missing, with the command that installs it; another version; a missing method; a failed
 *   self-test. YK_E_NOMEM. Thread: any, one at a time. */
yk_status yk_grammar_library_load(const char *dir, yk_grammar_library **out, yk_err *err);

/* yk_grammar_library_free - the code stays loaded. Every object must have been released. NULL is allowed. */
void yk_grammar_library_free(yk_grammar_library *library);

/* yk_grammar_library_file - path of libtvm_ffi.so (0) or libxgrammar_bindings.so (1). */
const char *yk_grammar_library_file(const yk_grammar_library *library, int index);

/* yk_grammar_call - call a method. *result: owned by the caller if an object (yk_grammar_release).
 *   Errors: YK_E_INVAL with the library's message. */
yk_status yk_grammar_call(const yk_grammar_library *library, yk_grammar_method method, yk_ffi_any *args, int32_t n_args,
                          yk_ffi_any *result, yk_err *err);

/* yk_grammar_array - an array of values, which stay the caller's. Errors: YK_E_NOMEM. */
yk_status yk_grammar_array(const yk_grammar_library *library, yk_ffi_any *values, int32_t n, yk_ffi_any *out,
                           yk_err *err);

/* yk_grammar_release - give up a result; nothing if it is no object. */
void yk_grammar_release(const yk_grammar_library *library, yk_ffi_any *value);

/* yk_grammar_append_text - append a result that is a string. Errors: YK_E_INTERNAL if it is none. */
yk_status yk_grammar_append_text(const yk_ffi_any *value, yk_strbuf *out, yk_err *err);

/* yk_grammar_fill_mask - words [(n_ids + 31) / 32]: bit id % 32 of word id / 32 is set if the id may come next.
 *   Bits after the last id are 0.
 *   Errors: YK_E_INVAL. */
yk_status yk_grammar_fill_mask(const yk_grammar_library *library, yk_ffi_any matcher, uint32_t *words, int32_t n_ids,
                               yk_err *err);

static inline yk_ffi_any yk_ffi_none(void)
{
  return (yk_ffi_any){.type_index = YK_FFI_NONE};
}

static inline yk_ffi_any yk_ffi_int(int64_t value)
{
  return (yk_ffi_any){.type_index = YK_FFI_INT, .integer = value};
}

static inline yk_ffi_any yk_ffi_bool(int value)
{
  return (yk_ffi_any){.type_index = YK_FFI_BOOL, .integer = value};
}

/* A NUL-terminated text, borrowed for the call. */
static inline yk_ffi_any yk_ffi_text(const char *text)
{
  return (yk_ffi_any){.type_index = YK_FFI_TEXT, .pointer = (void *)(uintptr_t)text};
}

/* Bytes, borrowed for the call. */
static inline yk_ffi_any yk_ffi_bytes_of(yk_ffi_bytes *bytes)
{
  return (yk_ffi_any){.type_index = YK_FFI_BYTES_POINTER, .pointer = bytes};
}

#endif
