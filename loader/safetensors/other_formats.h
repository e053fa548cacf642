/* other_formats.h - detect weights in formats other than safetensors, and report how to convert them. Not for use
 * outside the loader. */
#ifndef YK_LOADER_OTHER_FORMATS_H
#define YK_LOADER_OTHER_FORMATS_H

#include "base/status.h"

/* yk_other_formats_check_path - check that path is a directory. Errors: YK_E_UNSUPPORTED for a GGUF file, YK_E_FORMAT
 *   for a Git LFS pointer, else YK_E_IO. */
yk_status yk_other_formats_check_path(const char *path, yk_err *err);

/* yk_other_formats_check_dir - check that dir contains no weights in other formats. Errors: YK_E_UNSUPPORTED, naming
 *   one. */
yk_status yk_other_formats_check_dir(const char *dir, yk_err *err);

/* yk_other_formats_check_mistral - refuses a directory whose weights are only in Mistral's format; the caller has found
 *   no Hugging Face weights. Errors: YK_E_UNSUPPORTED, with the way to convert. */
yk_status yk_other_formats_check_mistral(const char *dir, yk_err *err);

#endif
