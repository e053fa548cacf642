/* text_names.h - where the files of a model that may also read images have its text part. Not for use outside the
 * loader. */
#ifndef YK_LOADER_TEXT_NAMES_H
#define YK_LOADER_TEXT_NAMES_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_text_names_choose - config->text_place, from the names of the layers' tensors: model classes and their versions
 *   use different prefixes for the same model. No effect for families whose files hold only the text model, or if no
 *   prefix has a layer. */
void yk_text_names_choose(const yk_shards *shards, yk_model_config *config);

#endif
