/* formats.h - the target formats of a conversion, one file each. */
#ifndef YK_CONVERT_FORMATS_H
#define YK_CONVERT_FORMATS_H

#include "convert/source.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* yk_convert_write_awq - write safetensors files in AWQ's "gemm" order, config.json and all other files of the model
 *   into dir, which exists and is empty. Errors: those of stream.h, safetensors_write.h, side_files.h. */
yk_status yk_convert_write_awq(const yk_convert_source *source, const yk_convert_options *options, const char *dir,
                               yk_err *err);

/* yk_convert_write_kuiper - write a KuiperLLama file (loader/foreign/kuiper_layout.h) at options->out, which gets its
 *   name once the file is complete. Errors: YK_E_UNSUPPORTED naming the feature that such a file cannot express, those
 *   of stream.h, YK_E_IO. */
yk_status yk_convert_write_kuiper(const yk_convert_source *source, const yk_convert_options *options, yk_err *err);

#endif
