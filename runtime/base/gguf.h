/* gguf.h - GGUF files are not read: a GGUF file given as a checkpoint or tokenizer is refused by name, with the way to
 * convert it. */
#ifndef YK_BASE_GGUF_H
#define YK_BASE_GGUF_H

#include <stdbool.h>

#include "base/status.h"

/* yk_gguf_is_file - whether path is an existing file (not a directory) with the suffix .gguf. Thread: any. */
bool yk_gguf_is_file(const char *path);

/* yk_gguf_refuse - YK_E_UNSUPPORTED, naming the file without its folders. Thread: any. */
yk_status yk_gguf_refuse(const char *path, yk_err *err);

#endif
