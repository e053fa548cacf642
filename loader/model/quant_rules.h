/* quant_rules.h - rules that select the quantised modules of a checkpoint, and their schemes, by the names in its
 * configuration. */
#ifndef YK_LOADER_QUANT_RULES_H
#define YK_LOADER_QUANT_RULES_H

#include "base/status.h"
#include "loader/model/model_config.h"

typedef enum yk_name_match {
  YK_NAME_IS,           /* the whole name, with any prefix of the text model */
  YK_NAME_BEGINS,       /* the whole name or its first parts between dots, with any prefix of the text model */
  YK_NAME_HAS_PARTS,    /* one or more consecutive parts between the name's dots: yk_name_has_parts */
  YK_NAME_CONTAINS,     /* any substring of the name, also within a part between dots */
  YK_NAME_BEGINS_LIKE,  /* a regular expression that matches at the start of the name: Python's re.match */
  YK_NAME_CONTAINS_LIKE /* a regular expression that matches anywhere: Python's re.search */
} yk_name_match;

typedef struct yk_quant_rules yk_quant_rules;

/* yk_name_has_parts - whether parts is one or more consecutive parts between the dots of a name: "mlp.gate" is in
 *   "model.layers.1.mlp.gate", "layers.1" is not in "model.layers.10.mlp". Dots at either end of parts are ignored. */
bool yk_name_has_parts(const char *name, const char *parts);

/* yk_quant_rules_add - append a rule. The first rule that matches a module decides. *rules is NULL before the first.
 *   scheme NULL: matching modules are not quantised. label, key: of the pattern, for messages.
 *   Errors: YK_E_FORMAT (empty, or not a regular expression), YK_E_NOMEM. */
yk_status yk_quant_rules_add(yk_quant_rules **rules, yk_name_match match, const char *pattern,
                             const yk_quant_scheme *scheme, const char *label, const char *key, yk_err *err);

void yk_quant_rules_free(yk_quant_rules *rules); /* NULL is allowed */

/* yk_quant_scheme_of - the scheme in the configuration of a module ("model.layers.0.mlp.down_proj"); NULL: not
 *   quantised. Errors: YK_E_FORMAT if a regular expression takes too many steps. Thread: any. */
yk_status yk_quant_scheme_of(const yk_quant_config *quant, const char *module, const yk_quant_scheme **out,
                             yk_err *err);

/* yk_quant_scheme_of_quantised - the scheme of a module whose tensors are quantised: as above, but exclusions of the
 *   configuration are ignored. Lists of excluded modules name them as the tool that quantised them, not always as the
 *   files. NULL: no group names the module. Errors: as above. */
yk_status yk_quant_scheme_of_quantised(const yk_quant_config *quant, const char *module, const yk_quant_scheme **out,
                                       yk_err *err);

/* yk_quant_may_have - whether the configuration gives any module weights of the format. Thread: any. */
bool yk_quant_may_have(const yk_quant_config *quant, yk_weight_format format);

/* yk_quant_may_have_inputs - whether the configuration quantises any module's inputs in this way. Thread: any. */
bool yk_quant_may_have_inputs(const yk_quant_config *quant, yk_inputs_kind inputs);

#endif
