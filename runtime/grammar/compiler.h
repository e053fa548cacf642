/* compiler.h - compiles constraints in a helper process, within limits of time and memory: nothing cancels a
 * compilation, and a schema may take minutes. The process is sandboxed (base/helper_process.h); a process that exceeds
 * a limit is ended, and the next request starts another. */
#ifndef YK_GRAMMAR_COMPILER_H
#define YK_GRAMMAR_COMPILER_H

#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_grammar_compiler yk_grammar_compiler; /* owner: the creator; one thread at a time */

typedef struct yk_grammar_compiler_options {
  const char *python;
  const char *ffi_file, *library_file; /* as yk_grammar_library_file names them */
  const char *tokenizer;               /* as the library serialises it; borrowed */
  const char *special;                 /* ids of special tokens by name, a JSON object; borrowed */
  double time_limit_s;                 /* of a compilation; the start of the process has a separate limit */
  int64_t memory_limit_bytes;
} yk_grammar_compiler_options;

/* yk_grammar_compiler_create - the process starts with the first compilation. Errors: YK_E_NOMEM. */
yk_status yk_grammar_compiler_create(const yk_grammar_compiler_options *options, yk_grammar_compiler **out,
                                     yk_err *err);
void yk_grammar_compiler_free(yk_grammar_compiler *compiler);

/* yk_grammar_compile - append the compiled grammar, as the library serialises it. kind: a name of the helper's
 *   (helper/grammar_helper.py); text: [n_bytes] UTF-8.
 *   Errors: YK_E_INVAL: refused, with the place, or a limit is exceeded; YK_E_UNSUPPORTED: no Python, or no sandbox;
 *   YK_E_IO, YK_E_NOMEM. */
yk_status yk_grammar_compile(yk_grammar_compiler *compiler, const char *kind, const char *text, size_t n_bytes,
                             yk_strbuf *out, yk_err *err);

#endif
