/* batch_identity.h - hashes everything besides the lines that results depend on: a run with another model or other
 * options must not resume an earlier one. */
#ifndef YK_CLI_BATCH_IDENTITY_H
#define YK_CLI_BATCH_IDENTITY_H

#include <stdint.h>

#include "cli/options/model_options.h"
#include "cli/options/sampling_options.h"
#include "cli/options/template_options.h"

/* yk_batch_identity - a hash of the model and its tokenizer, the options of sampling and of chats (the contents of a
 *   template's file), the type of activations and the seed. The model is represented by its JSON files and chat
 *   templates (*.jinja), and by names, sizes and a fingerprint of the contents of its weight files, which does not read
 *   all of a large file. Neither the model's path nor the number of devices is included.
 *   Errors: YK_E_IO if the directory or a file cannot be read, YK_E_NOMEM. */
yk_status yk_batch_identity(const yk_model_options *model, const yk_sampling_options *sampling,
                            const yk_template_options *chat, uint32_t *out, yk_err *err);

#endif
