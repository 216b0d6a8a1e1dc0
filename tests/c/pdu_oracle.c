/*
 * Oracle for PDUs: libpcp's decoders, driven by lines on stdin, one line of answer each.
 *
 *   BYTES    a whole PDU, hexadecimal: what libpcp makes of it, "error CODE", or "crash" or "hang" if that is the end of it
 *
 * Each is decoded by a child of its own. Texts are answered in hexadecimal. Built with: cc pdu_oracle.c -lpcp_pmda -lpcp
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pcp/pmapi.h>
#include <pcp/pmda.h>

/* Exported by libpcp, but in none of the installed headers. */
typedef uint32_t PDU;
extern int __pmGetPDU(int, int, int, PDU **);
extern int __pmDecodeError(PDU *, int *);
extern int __pmDecodeDescReq(PDU *, pmID *);
extern int __pmDecodeDesc(PDU *, pmDesc *);
extern int __pmDecodeInstanceReq(PDU *, pmInDom *, int *, char **);
extern int __pmDecodeInstance(PDU *, pmInResult **);
extern int __pmDecodeTextReq(PDU *, int *, int *);
extern int __pmDecodeText(PDU *, int *, char **);
extern int __pmDecodeCreds(PDU *, int *, int *, uint32_t **);
extern int __pmDecodeIDList(PDU *, int, pmID *, int *);
extern int __pmDecodeNameList(PDU *, int *, char ***, int **);
extern int __pmDecodeChildReq(PDU *, char **, int *);
extern int __pmDecodeTraversePMNSReq(PDU *, char **);
extern int __pmDecodeLabelReq(PDU *, int *, int *);

static void text(const char *name)
{
    putchar(' ');
    if (name == NULL || *name == 0)
        putchar('-');
    for (; name && *name; name++)
        printf("%02x", (unsigned char)*name);
}

static void decode(PDU *pdu, uint32_t kind)
{
    int a = 0, b = 0, sts;
    char *name = NULL;
    switch (kind) {
    case 0x7000:
        if ((sts = __pmDecodeError(pdu, &a)) >= 0)
            printf("error-pdu %d", a);
        break;
    case 0x7004: {
        pmID pmid;
        if ((sts = __pmDecodeDescReq(pdu, &pmid)) >= 0)
            printf("desc-req %x", pmid);
        break;
    }
    case 0x7005: {
        pmDesc d;
        uint32_t units;
        if ((sts = __pmDecodeDesc(pdu, &d)) >= 0) {
            memcpy(&units, &d.units, 4);
            printf("desc %x %d %x %d %d %d %d %d %d %d", d.pmid, d.type, d.indom, d.sem, d.units.dimSpace, d.units.dimTime,
                   d.units.dimCount, d.units.scaleSpace, d.units.scaleTime, d.units.scaleCount);
        }
        break;
    }
    case 0x7006: {
        pmInDom indom;
        if ((sts = __pmDecodeInstanceReq(pdu, &indom, &a, &name)) >= 0) {
            printf("instance-req %x %d", indom, a);
            text(name);
        }
        break;
    }
    case 0x7007: {
        pmInResult *result;
        if ((sts = __pmDecodeInstance(pdu, &result)) >= 0) {
            printf("instance %x", result->indom);
            for (int i = 0; i < result->numinst; i++) {
                /* One without any names has none at all: that is how an answer without names is told apart. */
                printf(" %d", result->instlist ? result->instlist[i] : -1);
                text(result->namelist ? result->namelist[i] : NULL);
            }
        }
        break;
    }
    case 0x7008:
        if ((sts = __pmDecodeTextReq(pdu, &a, &b)) >= 0)
            printf("text-req %x %x", a, b);
        break;
    case 0x7009:
        if ((sts = __pmDecodeText(pdu, &a, &name)) >= 0) {
            /* Handed over as it is in the PDU, which senders fill in either order. */
            printf("text %x", ntohl(a));
            text(name);
        }
        break;
    case 0x700c: {
        uint32_t *creds;
        if ((sts = __pmDecodeCreds(pdu, &a, &b, &creds)) >= 0) {
            printf("creds");
            for (int i = 0; i < b; i++) {
                const unsigned char *bytes = (const unsigned char *)&creds[i];
                printf(" %02x%02x%02x%02x", bytes[3], bytes[2], bytes[1], bytes[0]);
            }
        }
        break;
    }
    case 0x700d: {
        int count = ntohl(pdu[4]);
        pmID *ids = calloc(count > 0 && count < 100000 ? count : 1, sizeof *ids);
        if ((sts = __pmDecodeIDList(pdu, count, ids, &a)) >= 0) {
            printf("ids %d", a);
            for (int i = 0; i < count; i++)
                printf(" %x", ids[i]);
        }
        break;
    }
    case 0x700e: {
        char **names = NULL;
        int *status = NULL;
        if ((sts = __pmDecodeNameList(pdu, &a, &names, &status)) >= 0) {
            printf("names");
            for (int i = 0; i < a; i++) {
                if (status)
                    printf(" %d", status[i] != 0);
                text(names[i]);
            }
        }
        break;
    }
    case 0x700f:
        if ((sts = __pmDecodeChildReq(pdu, &name, &a)) >= 0) {
            printf("child %d", a != 0);
            text(name);
        }
        break;
    case 0x7010:
        if ((sts = __pmDecodeTraversePMNSReq(pdu, &name)) >= 0) {
            printf("traverse");
            text(name);
        }
        break;
    case 0x7012:
        if ((sts = __pmDecodeLabelReq(pdu, &a, &b)) >= 0)
            printf("label-req %x", b);
        break;
    default:
        sts = 0;
        printf("unknown");
    }
    if (sts < 0)
        printf("error %d", sts);
}

static void child(const unsigned char *bytes, size_t length)
{
    int ends[2];
    PDU *pdu;
    alarm(5);
    if (pipe(ends) < 0 || write(ends[1], bytes, length) != (ssize_t)length)
        _exit(9);
    close(ends[1]);
    int kind = __pmGetPDU(ends[0], 0, 0, &pdu);
    if (kind <= 0)
        printf("error %d", kind);
    else
        decode(pdu, kind);
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    while ((length = getline(&line, &room, stdin)) > 0) {
        static unsigned char bytes[1 << 16];
        size_t count = 0;
        for (ssize_t at = 0; at + 1 < length && count < sizeof bytes; at += 2) {
            unsigned byte;
            if (sscanf(line + at, "%2x", &byte) != 1)
                break;
            bytes[count++] = byte;
        }
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            /* What it complains of is of no interest. */
            if (freopen("/dev/null", "w", stderr) == NULL)
                _exit(9);
            child(bytes, count);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status))
            printf(WTERMSIG(status) == SIGALRM ? "hang" : "crash");
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
