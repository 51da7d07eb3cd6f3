import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Asks Kafka's StandardAuthorizer. Lines of standard input, with tabs between their words:
 *
 * <p>new SUPER_USERS ALLOW_EVERYONE; add TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION;
 * may PRINCIPAL HOST OPERATION TYPE NAME; any PRINCIPAL HOST OPERATION TYPE; find (as add, a dash
 * for null). The last three print a line.
 */
public class AuthorizerOracle {
    record Asking(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] none) throws Exception {
        StandardAuthorizer authorizer = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\t", -1);
            switch (w[0]) {
                case "new" -> {
                    Map<String, Object> settings = new HashMap<>();
                    settings.put("super.users", w[1]);
                    settings.put("allow.everyone.if.no.acl.found", w[2]);
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(settings);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                }
                case "add" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(code(w[1])), w[2], PatternType.fromCode(code(w[3])),
                    w[4], w[5], AclOperation.fromCode(code(w[6])),
                    AclPermissionType.fromCode(code(w[7]))));
                case "may" -> {
                    Action action = new Action(AclOperation.fromCode(code(w[3])),
                        new ResourcePattern(ResourceType.fromCode(code(w[4])), w[5],
                            PatternType.LITERAL), 1, true, true);
                    out.append(authorizer.authorize(asking(w), List.of(action)).get(0));
                    out.append('\n');
                }
                case "any" -> out.append(authorizer.authorizeByResourceType(asking(w),
                    AclOperation.fromCode(code(w[3])), ResourceType.fromCode(code(w[4]))))
                    .append('\n');
                case "find" -> {
                    AclBindingFilter filter = new AclBindingFilter(
                        new ResourcePatternFilter(ResourceType.fromCode(code(w[1])), text(w[2]),
                            PatternType.fromCode(code(w[3]))),
                        new AccessControlEntryFilter(text(w[4]), text(w[5]),
                            AclOperation.fromCode(code(w[6])),
                            AclPermissionType.fromCode(code(w[7]))));
                    List<String> found = new ArrayList<>();
                    for (AclBinding acl : authorizer.acls(filter)) {
                        found.add(String.join("|", "" + acl.pattern().resourceType().code(),
                            acl.pattern().name(), "" + acl.pattern().patternType().code(),
                            acl.entry().principal(), acl.entry().host(),
                            "" + acl.entry().operation().code(),
                            "" + acl.entry().permissionType().code()));
                    }
                    Collections.sort(found);
                    out.append(String.join(" ", found)).append('\n');
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(out);
    }

    static Asking asking(String[] w) throws Exception {
        return new Asking(SecurityUtils.parseKafkaPrincipal(w[1]), InetAddress.getByName(w[2]));
    }

    static byte code(String word) { return Byte.parseByte(word); }

    static String text(String word) { return word.equals("-") ? null : word; }
}
