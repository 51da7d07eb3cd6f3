// Drives kafkajs against a broker: node roundtrip.js <bootstrap> <topic> <scenario>
// Prints one JSON line with what was seen; any error ends it with a non-zero exit code.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')

const [bootstrap, topic, scenario] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'ottla-test', brokers: [bootstrap], logLevel: logLevel.ERROR })

// kafkajs brings gzip; the rest are plug-ins by its users.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => {
  const { lz4Compress, lz4Decompress } = require('@platformatic/wasm-utils')
  return {
    compress: async encoder => lz4Compress(encoder.buffer),
    decompress: async buffer => lz4Decompress(buffer)
  }
}
CompressionCodecs[CompressionTypes.ZSTD] = () => {
  const zstd = require('@bokuweb/zstd-wasm')
  return {
    compress: async encoder => { await zstd.init(); return Buffer.from(zstd.compress(encoder.buffer, 3)) },
    decompress: async buffer => { await zstd.init(); return Buffer.from(zstd.decompress(buffer)) }
  }
}
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

async function withAdmin (work) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await work(admin) } finally { await admin.disconnect() }
}

async function produce (options, messages) {
  const producer = kafka.producer()
  await producer.connect()
  try { return await producer.send({ topic, messages, ...options }) } finally { await producer.disconnect() }
}

const SCENARIOS = {
  async records () {
    const configEntries = [{ name: 'retention.ms', value: '-1' }] // one of the records is old
    await withAdmin(admin => admin.createTopics({ topics: [{ topic, configEntries }] }))
    return produce({}, [
      { key: 'key', value: 'value', headers: { trace: Buffer.from([0, 255]), twice: ['1', '2'] } },
      { key: null, value: 'no key' },
      { key: 'no value', value: null },
      { key: '', value: '' },
      { key: 'partitioned', value: 'with a timestamp', timestamp: '1700000000000' }
    ])
  },
  async codec (name) {
    const messages = Array.from({ length: 200 }, (_, n) => ({ key: `${n}`, value: 'compressible '.repeat(n) }))
    await withAdmin(admin => admin.createTopics({ topics: [{ topic }] }))
    return produce({ compression: CODECS[name] }, messages)
  },
  async acks (level) {
    await withAdmin(admin => admin.createTopics({ topics: [{ topic }] }))
    return produce({ acks: Number(level) }, [{ value: 'one' }, { value: 'two' }])
  },
  async large () {
    const configEntries = [{ name: 'max.message.bytes', value: '4194304' }]
    await withAdmin(admin => admin.createTopics({ topics: [{ topic, configEntries }] }))
    return produce({}, [{ value: 'm'.repeat(1 << 20) }])
  },
  async autocreate () {
    return produce({}, [{ value: 'hello' }])
  },
  async partitions () {
    await withAdmin(admin => admin.createTopics({ topics: [{ topic, numPartitions: 100 }] }))
    const messages = Array.from({ length: 500 }, (_, n) => ({ value: `${n}`, partition: n % 100 }))
    return produce({}, messages)
  },
  async toolarge () {
    const configEntries = [{ name: 'max.message.bytes', value: '1000' }]
    await withAdmin(admin => admin.createTopics({ topics: [{ topic, configEntries }] }))
    try {
      await produce({}, [{ value: 'm'.repeat(5000) }])
    } catch (error) {
      return { type: error.type ?? error.cause?.type }
    }
    throw new Error('the broker took a message that is too large')
  },
  async admin () {
    return withAdmin(async admin => {
      const start = Date.now() - 100000
      const created = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
      const again = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
      await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
      await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '1234567' }] }] })
      await produce({}, Array.from({ length: 10 }, (_, n) => ({ value: `${n}`, partition: 1, timestamp: `${start + n * 1000}` })))
      const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, start + 4500)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '3' }] })
      const offsets = await admin.fetchTopicOffsets(topic)
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const configs = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] })
      const cluster = await admin.describeCluster()
      await admin.deleteTopics({ topics: [topic] })
      return {
        created,
        again,
        partitions: topics[0].partitions.length,
        retention: configs.resources[0].configEntries.find(entry => entry.configName === 'retention.ms').configValue,
        byTime: byTime.find(entry => entry.partition === 1).offset,
        offsets: offsets.find(entry => entry.partition === 1),
        brokers: cluster.brokers.map(broker => `${broker.host}:${broker.port}`),
        left: (await admin.listTopics()).includes(topic)
      }
    })
  }
}

const [name, argument] = scenario.split(':')
SCENARIOS[name](argument).then(
  result => { console.log(JSON.stringify(result)) },
  error => { console.error(error); process.exitCode = 1 }
)
