/* Marks and ranges of mstx, as functions of libms_tools_ext.so. The header of the real package has the same functions
 * inline; a program that uses it need not be linked to the library. */
#ifndef VIRTUAL_NPU_MS_TOOLS_EXT_H
#define VIRTUAL_NPU_MS_TOOLS_EXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* aclrtStream;
typedef uint64_t mstxRangeId;
typedef struct mstxDomainRegistration_t* mstxDomainHandle_t;

void mstxMarkA(const char* message, aclrtStream stream);
mstxRangeId mstxRangeStartA(const char* message, aclrtStream stream);
void mstxRangeEnd(mstxRangeId id);
void mstxGetToolId(uint64_t* id);

mstxDomainHandle_t mstxDomainCreateA(const char* name);
void mstxDomainDestroy(mstxDomainHandle_t domain);
void mstxDomainMarkA(mstxDomainHandle_t domain, const char* message, aclrtStream stream);
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char* message, aclrtStream stream);
void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id);

#ifdef __cplusplus
}
#endif

#endif /* VIRTUAL_NPU_MS_TOOLS_EXT_H */
