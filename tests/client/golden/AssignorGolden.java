// What Kafka's own assignors answer, for test_client_assignors_golden.py. Run once, by hand:
//
//     java -cp "$OTTLA_KAFKA_LIBS/*" tests/client/golden/AssignorGolden.java > tests/client/golden/assignors.json
//
// Where an answer depends on the order of a HashMap it is no promise. That is found out by asking again
// with other names for members and topics that sort alike: "stable" says that all answers were the same,
// "kept" is the least number of partitions that stayed with their owners.

import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

public class AssignorGolden {
    static final int RENAMINGS = 5;
    static final Random random = new Random(20240917);
    static final String[] ASSIGNORS = {"range", "roundrobin", "sticky", "cooperative-sticky"};

    static class Member {
        List<String> topics = new ArrayList<>();
        List<TopicPartition> owned = new ArrayList<>();
        int generation = -1;
        String rack;
        String instance;
        boolean silent; // tells its generation only in user data, as old clients do
    }

    static class Case {
        String assignor;
        Map<String, List<int[]>> topics = new TreeMap<>();
        List<String> racks = new ArrayList<>(); // by broker id
        Map<String, Member> members = new TreeMap<>();
    }

    static class Names {
        final Map<String, String> there = new HashMap<>();
        final Map<String, String> back = new HashMap<>();

        static Names same(Case c) {
            Names names = new Names();
            Stream.concat(c.members.keySet().stream(), c.topics.keySet().stream()).forEach(n -> names.add(n, n));
            c.members.values().forEach(m -> m.topics.forEach(t -> names.add(t, t)));
            return names;
        }

        static Names other(Case c) {
            Names names = new Names();
            names.rename(c.members.keySet());
            Set<String> topics = new TreeSet<>(c.topics.keySet());
            c.members.values().forEach(m -> topics.addAll(m.topics));
            names.rename(topics);
            return names;
        }

        void rename(Collection<String> sorted) {
            SortedSet<String> fresh = new TreeSet<>();
            while (fresh.size() < sorted.size()) fresh.add(Long.toString(Math.abs(random.nextLong()), 36));
            Iterator<String> next = fresh.iterator();
            sorted.forEach(name -> add(name, next.next()));
        }

        void add(String name, String other) {
            there.put(name, other);
            back.put(other, name);
        }

        TopicPartition there(TopicPartition tp) {
            return new TopicPartition(there.get(tp.topic()), tp.partition());
        }

        TopicPartition back(TopicPartition tp) {
            return new TopicPartition(back.get(tp.topic()), tp.partition());
        }
    }

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    static Cluster cluster(Case c, Names names) {
        List<Node> nodes = new ArrayList<>();
        for (int i = 0; i < c.racks.size(); i++) nodes.add(new Node(i, "host", 9092 + i, c.racks.get(i)));
        List<PartitionInfo> infos = new ArrayList<>();
        c.topics.forEach((topic, partitions) -> {
            for (int i = 0; i < partitions.size(); i++) {
                Node[] replicas = Arrays.stream(partitions.get(i)).mapToObj(nodes::get).toArray(Node[]::new);
                infos.add(new PartitionInfo(names.there.get(topic), i, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("cluster", nodes, infos, Set.of(), Set.of());
    }

    static Subscription subscription(Case c, Member m, Names names) {
        ConsumerPartitionAssignor mine = assignor(c.assignor);
        List<TopicPartition> owned = m.owned.stream().map(names::there).collect(Collectors.toList());
        if (m.generation >= 0)
            mine.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", m.generation, "m", Optional.empty()));
        List<String> topics = m.topics.stream().map(names.there::get).collect(Collectors.toList());
        ByteBuffer userData = mine.subscriptionUserData(new TreeSet<>(topics));
        boolean eager = !c.assignor.equals("cooperative-sticky");
        Subscription made = new Subscription(topics, userData, eager ? List.of() : owned,
            m.silent ? -1 : m.generation, Optional.ofNullable(m.rack));
        made.setGroupInstanceId(Optional.ofNullable(m.instance));
        return made;
    }

    static Map<String, List<TopicPartition>> answer(Case c, Names names) {
        Map<String, Subscription> members = new HashMap<>();
        c.members.forEach((id, m) -> members.put(names.there.get(id), subscription(c, m, names)));
        Map<String, Assignment> found =
            assignor(c.assignor).assign(cluster(c, names), new GroupSubscription(members)).groupAssignment();
        Map<String, List<TopicPartition>> result = new TreeMap<>();
        found.forEach((id, a) -> result.put(names.back.get(id), a.partitions().stream().map(names::back)
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .collect(Collectors.toList())));
        return result;
    }

    static int kept(Case c, Map<String, List<TopicPartition>> result) {
        return c.members.entrySet().stream().mapToInt(e ->
            (int) result.get(e.getKey()).stream().filter(e.getValue().owned::contains).count()).sum();
    }

    static Case fresh(String assignor, boolean racks, boolean mixed) {
        Case c = new Case();
        c.assignor = assignor;
        int rackCount = 1 + random.nextInt(3);
        for (int i = 0; i < 1 + random.nextInt(5); i++) c.racks.add(racks ? "r" + i % rackCount : null);
        for (int i = 0; i < 1 + random.nextInt(5); i++) c.topics.put("t" + i, partitions(c, 1 + random.nextInt(8)));
        if (random.nextInt(3) == 0) { // partitioned alike
            int count = 1 + random.nextInt(6);
            c.topics.replaceAll((t, old) -> partitions(c, count));
        }
        for (int i = 0; i < 1 + random.nextInt(6); i++) join(c, racks ? "r" + random.nextInt(rackCount) : null, mixed);
        return c;
    }

    static List<int[]> partitions(Case c, int count) {
        List<int[]> made = new ArrayList<>();
        int replicas = 1 + random.nextInt(c.racks.size());
        int first = random.nextInt(c.racks.size());
        for (int i = 0; i < count; i++) {
            int[] nodes = new int[replicas];
            for (int r = 0; r < replicas; r++) nodes[r] = (first + i + r) % c.racks.size();
            made.add(nodes);
        }
        return made;
    }

    static void join(Case c, String rack, boolean mixed) {
        Member m = new Member();
        m.topics.addAll(c.topics.keySet());
        if (mixed && m.topics.size() > 1) {
            Collections.shuffle(m.topics, random);
            m.topics = new ArrayList<>(m.topics.subList(0, 1 + random.nextInt(m.topics.size())));
        }
        if (random.nextInt(12) == 0) m.topics.add("missing");
        m.rack = random.nextInt(6) == 0 ? null : rack;
        if (random.nextInt(8) == 0) m.instance = "i" + random.nextInt(1000);
        c.members.put("c" + random.nextInt(1000), m);
    }

    // What a group goes through between two rebalances.
    static Case after(Case old, Map<String, List<TopicPartition>> result, int generation, boolean racks, boolean mixed) {
        Case c = new Case();
        c.assignor = old.assignor;
        c.racks = old.racks;
        c.topics.putAll(old.topics);
        old.members.forEach((id, m) -> {
            Member same = new Member();
            same.topics.addAll(m.topics);
            same.rack = m.rack;
            same.instance = m.instance;
            same.silent = m.silent;
            boolean missed = random.nextInt(10) == 0; // was away for a generation
            same.owned.addAll(missed ? m.owned : result.get(id));
            same.generation = missed ? m.generation : generation;
            c.members.put(id, same);
        });
        switch (random.nextInt(6)) {
            case 0: if (c.members.size() > 1) c.members.remove(c.members.keySet().iterator().next()); break;
            case 1: join(c, racks ? "r" + random.nextInt(3) : null, mixed); break;
            case 2: join(c, racks ? "r" + random.nextInt(3) : null, mixed);
                    join(c, racks ? "r" + random.nextInt(3) : null, mixed); break;
            case 3: c.topics.replaceAll((t, p) -> {
                        List<int[]> more = new ArrayList<>(p);
                        for (int i = random.nextInt(3); i > 0; i--) more.add(p.get(0));
                        return more;
                    }); break;
            case 4: c.topics.put("t" + (5 + generation), partitions(c, 1 + random.nextInt(6)));
                    c.members.values().forEach(m -> { if (!mixed || random.nextBoolean()) m.topics.add("t" + (5 + generation)); });
                    break;
            default: break;
        }
        return c;
    }

    static final List<String> out = new ArrayList<>();

    static Map<String, List<TopicPartition>> write(Case c) {
        Names names = Names.same(c);
        Map<String, List<TopicPartition>> result = answer(c, names);
        boolean stable = true;
        int kept = kept(c, result);
        for (int i = 0; i < RENAMINGS; i++) {
            Map<String, List<TopicPartition>> again = answer(c, Names.other(c));
            stable &= again.equals(result);
            kept = Math.min(kept, kept(c, again));
        }
        StringBuilder json = new StringBuilder("{\"assignor\": " + quoted(c.assignor));
        json.append(", \"racks\": ").append(list(c.racks, AssignorGolden::quoted));
        json.append(", \"topics\": ").append(map(c.topics, p -> list(p, Arrays::toString)));
        json.append(", \"members\": ").append(map(c.members, m -> member(c, m, names)));
        json.append(", \"result\": ").append(map(result, AssignorGolden::partitionsJson));
        json.append(", \"stable\": " + stable + ", \"kept\": " + kept + "}");
        out.add(json.toString());
        return result;
    }

    static String member(Case c, Member m, Names names) {
        Subscription s = subscription(c, m, names);
        return "{\"bytes\": " + quoted(hex(ConsumerProtocol.serializeSubscription(s)))
            + ", \"instance\": " + quoted(m.instance) + ", \"silent\": " + m.silent
            + ", \"topics\": " + list(m.topics, AssignorGolden::quoted) + ", \"owned\": " + partitionsJson(m.owned)
            + ", \"generation\": " + m.generation + ", \"rack\": " + quoted(m.rack) + "}";
    }

    static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String quoted(String s) {
        return s == null ? "null" : "\"" + s + "\"";
    }

    static <T> String list(Collection<T> items, java.util.function.Function<T, String> show) {
        return items.stream().map(show).collect(Collectors.joining(", ", "[", "]"));
    }

    static <T> String map(Map<String, T> items, java.util.function.Function<T, String> show) {
        return items.entrySet().stream().map(e -> quoted(e.getKey()) + ": " + show.apply(e.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    static String partitionsJson(List<TopicPartition> partitions) {
        return list(partitions, tp -> "[" + quoted(tp.topic()) + ", " + tp.partition() + "]");
    }

    public static void main(String[] args) {
        for (String name : ASSIGNORS) {
            boolean sticky = name.endsWith("sticky");
            for (int i = 0; i < (sticky ? 40 : 60); i++) {
                boolean racks = i % 3 == 2, mixed = i % 2 == 1;
                Case c = fresh(name, racks, mixed);
                if (sticky && i % 7 == 6) c.members.values().forEach(m -> m.silent = random.nextBoolean());
                for (int round = 1; round <= (sticky ? 4 : 1); round++) {
                    Map<String, List<TopicPartition>> result = write(c);
                    c = after(c, result, round, racks, mixed);
                }
            }
        }
        System.out.println("[\n" + String.join(",\n", out) + "\n]");
    }
}
