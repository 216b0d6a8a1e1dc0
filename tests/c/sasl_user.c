/* Sets a user's password in the database of pmcd's SASL configuration: USER PASSWORD REALM. */
#include <stddef.h>
#include <string.h>

/* As in sasl/sasl.h, which is not installed with PCP. */
typedef struct sasl_conn sasl_conn_t;
int sasl_server_init(const void *callbacks, const char *name);
int sasl_server_new(const char *service, const char *host, const char *realm, const char *local, const char *remote,
                    const void *callbacks, unsigned flags, sasl_conn_t **conn);
int sasl_setpass(sasl_conn_t *conn, const char *user, const char *pass, unsigned passlen, const char *old,
                 unsigned oldlen, unsigned flags);
enum { CREATE = 1 };

int main(int argc, char **argv)
{
    sasl_conn_t *conn;
    if (argc != 4 || sasl_server_init(NULL, "pmcd") != 0)
        return 2;
    if (sasl_server_new("pmcd", NULL, argv[3], NULL, NULL, NULL, 0, &conn) != 0)
        return 3;
    return sasl_setpass(conn, argv[1], argv[2], strlen(argv[2]), NULL, 0, CREATE) == 0 ? 0 : 1;
}
